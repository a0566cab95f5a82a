"""The keys of the published logs in the service's database, and why they may not sign."""

import msgspec

from barograph.history.checkpoint import LogKeys
from barograph.kit.database import DatabaseUnavailable, Queryable, Transaction

RESTORED = (
    "it was restored from a backup, and the operator must first compare it with the checkpoints "
    "that were published (barograph stances resume)"
)
OTHER_KEY = (
    "this host doesn't have the current key; the operator must copy history-key from another host "
    "or set BAROGRAPH_HISTORY_KEY, repeat a command that was interrupted (barograph stances "
    "rotate-key), or replace a lost key (barograph stances resume --new-origin)"
)


class SigningRefused(DatabaseUnavailable):
    """Nothing may be signed now; the message is safe to publish."""


async def read_log_keys(tx: Queryable) -> LogKeys:
    """Read them; the defaults before anything was signed."""
    rows = await tx.fetch("SELECT keys FROM history_origin")
    return decode_log_keys(rows[0][0] if rows else None)


def decode_log_keys(stored: str | None) -> LogKeys:
    """The keys of a row; None if there is no row."""
    return LogKeys() if stored is None else _LOG_KEYS.decode(stored)


async def store_log_keys(tx: Transaction, keys: LogKeys) -> None:
    """Replace them."""
    await tx.execute(_STORE, msgspec.json.encode(keys).decode())


_LOG_KEYS = msgspec.json.Decoder(LogKeys)
_STORE = """
INSERT INTO history_origin (id, keys) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET keys = excluded.keys
"""

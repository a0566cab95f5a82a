"""The name and key of the published logs, and the keys that signed before.

They are in the service's database, beside the signed heads.
"""

import json

from barograph.history.checkpoint import LogKeys, Origin, RetiredKey
from barograph.kit.database import DatabaseUnavailable, Queryable, Row, Transaction

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
    """Read all of it, from one snapshot."""
    rows = await tx.fetch(_ORIGIN)
    retired = [_retired(*row) for row in await tx.fetch(_RETIRED)]
    return LogKeys(origin_from(rows[0]) if rows else Origin(), tuple(retired))


def origin_from(row: Row) -> Origin:
    """Decode a row of `history_origin`; NULL if there is none."""
    name, public_key, held_since = row
    key = None if public_key is None else bytes.fromhex(public_key)
    return Origin(name or "", key, held_since)


async def store_origin(tx: Transaction, origin: Origin) -> None:
    """Replace the origin."""
    key = None if origin.public_key is None else origin.public_key.hex()
    await tx.execute(_STORE, origin.name, key, origin.held_since)


async def retire(tx: Transaction, key: RetiredKey) -> None:
    """Add a key to those that sign no more."""
    checkpoints = json.dumps(key.checkpoints)
    await tx.execute(_RETIRE, key.public_key.hex(), key.name, key.retired_at, checkpoints)


def _retired(public_key: str, name: str, retired_at: int, checkpoints: str) -> RetiredKey:
    return RetiredKey(bytes.fromhex(public_key), name, retired_at, tuple(json.loads(checkpoints)))


_ORIGIN = "SELECT name, public_key, held_since FROM history_origin"
_RETIRED = """
SELECT public_key, name, retired_at, checkpoints FROM retired_history_keys ORDER BY number
"""
_STORE = """
INSERT INTO history_origin (id, name, public_key, held_since) VALUES (1, $1, $2, $3)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, public_key = excluded.public_key,
    held_since = excluded.held_since
"""
_RETIRE = """
INSERT INTO retired_history_keys (number, public_key, name, retired_at, checkpoints)
SELECT count(*) + 1, $1, $2, $3, $4 FROM retired_history_keys
"""

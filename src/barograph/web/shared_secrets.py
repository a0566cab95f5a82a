"""Secrets that all hosts of one PostgreSQL database must share.

A host with another pepper would accept none of the stored API keys. A host with another checkpoint
key would sign checkpoints that contradict the others'. So the first web host stores fingerprints of
its secrets, and one with other secrets doesn't start.
"""

import hmac

from barograph.errors import ConfigurationError
from barograph.history.signing import FILE_NAME as HISTORY_KEY_FILE
from barograph.history.signing import load_history_key
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.kit.database import POSTGRESQL, Database, Transaction
from barograph.settings import Settings

_PURPOSE = b"barograph: fingerprint of a secret"


async def require_shared_secrets(database: Database, settings: Settings) -> None:
    """Store the fingerprints of our secrets, or compare them with the stored ones.

    SQLite needs no check: it serves one host, which keeps its secrets in the same folder.

    Raises:
        ConfigurationError: another host has stored other secrets.
        DatabaseUnavailable: the database cannot be used.
    """
    if database.engine != POSTGRESQL:
        return
    ours = _fingerprints(settings)
    stored: dict[str, str] = dict(await database.fetch(_STORED))
    if stored.keys() != ours.keys():
        stored = await database.write(lambda tx: _store(tx, ours))
    other = sorted(name for name in ours if not hmac.compare_digest(ours[name], stored[name]))
    if other:
        raise ConfigurationError(
            f"this database was used with another {' and '.join(other)}: copy the files from the "
            f"data folder of another host to {settings.data}, or set BAROGRAPH_KEY_PEPPER and "
            "BAROGRAPH_HISTORY_KEY to the same values on every host. To replace the secrets, stop "
            "every web host and run `barograph db upgrade --new-secrets`"
        )


async def forget_secrets(database: Database) -> None:
    """Delete the fingerprints, so that hosts can start with other secrets."""
    await database.write(lambda tx: tx.execute("DELETE FROM secret_fingerprints"))


def _fingerprints(settings: Settings) -> dict[str, str]:
    """A keyed hash for each secret, from which nobody can learn it."""
    secrets = {
        PEPPER_FILE: load_pepper(settings),
        HISTORY_KEY_FILE: load_history_key(settings).private_bytes_raw(),
    }
    return {name: hmac.digest(key, _PURPOSE, "sha256").hex() for name, key in secrets.items()}


async def _store(tx: Transaction, ours: dict[str, str]) -> dict[str, str]:
    """Store what nobody stored before, and return what is stored now."""
    await tx.execute_many(_ADD, sorted(ours.items()))
    return dict(await tx.fetch(_STORED))


_STORED = "SELECT name, fingerprint FROM secret_fingerprints"
_ADD = "INSERT INTO secret_fingerprints (name, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING"

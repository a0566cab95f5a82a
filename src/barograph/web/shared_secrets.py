"""Secrets that all hosts of one PostgreSQL database must share.

With another pepper a host would accept none of the stored API keys; with another checkpoint key its
signatures would contradict those of the others. So the first host stores fingerprints of its
secrets, and a host with other secrets does not start.
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

    SQLite serves one host, whose secrets are in the same folder.

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
            f"other hosts of this database have another {' and '.join(other)}: copy the files from "
            f"{settings.data} of one of them, or set BAROGRAPH_KEY_PEPPER and "
            "BAROGRAPH_HISTORY_KEY to the same values on every host. To replace the secrets, stop "
            "every host and run `barograph db upgrade --new-secrets`"
        )


async def forget_secrets(database: Database) -> None:
    """Delete the fingerprints, so that the next host that starts may bring other secrets."""
    await database.write(lambda tx: tx.execute("DELETE FROM secret_fingerprints"))


def _fingerprints(settings: Settings) -> dict[str, str]:
    """A hash for each secret that tells nothing about it."""
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

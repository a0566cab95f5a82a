"""Secrets that all hosts of one PostgreSQL database must share.

A host with another pepper would accept none of the stored API keys. A host with another checkpoint
key would sign checkpoints that contradict the others'. A host with another webhook key would
publish a key that verifies no message. So the first web host stores fingerprints of its secrets,
and a host with other secrets doesn't start.
"""

from collections.abc import Mapping
from pathlib import Path

from barograph.errors import ConfigurationError
from barograph.history.signing import FILE_NAME as HISTORY_KEY_FILE
from barograph.history.signing import load_history_key
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.kit.database import POSTGRESQL, Database, Transaction
from barograph.kit.fingerprints import fingerprint
from barograph.settings import Settings
from barograph.webhooks.keys import FILE_NAME as WEBHOOK_KEY_FILE
from barograph.webhooks.keys import load_webhook_secret

SHARE_SECRETS = (
    "copy the files from the data folder of another host to {data}, or set BAROGRAPH_KEY_PEPPER, "
    "BAROGRAPH_HISTORY_KEY and BAROGRAPH_WEBHOOK_KEY to the same values on every host. If "
    "key-pepper is lost, or its change was interrupted, run `barograph keys rotate-pepper`. For "
    "history-key, run `barograph stances rotate-key`, or `resume` if it is lost. If "
    "webhook-key is lost, run `barograph db upgrade --new-secrets`"
)


def web_secrets(settings: Settings) -> dict[str, bytes]:
    """The secrets that web hosts share, by the names of their files."""
    key = load_history_key(settings).private_bytes_raw()
    webhooks = load_webhook_secret(settings)
    return {PEPPER_FILE: load_pepper(settings), HISTORY_KEY_FILE: key, WEBHOOK_KEY_FILE: webhooks}


async def require_shared_secrets(
    database: Database, data: Path, secrets: Mapping[str, bytes]
) -> None:
    """Store the fingerprints of our secrets, or compare them with the stored ones.

    SQLite needs no check: it serves one host, which keeps its secrets in the same folder.

    Raises:
        ConfigurationError: another host has stored other secrets.
        DatabaseUnavailable: the database cannot be used.
    """
    if database.engine != POSTGRESQL:
        return
    ours = {name: fingerprint(key) for name, key in secrets.items()}

    async def store(tx: Transaction) -> dict[str, str]:
        await tx.execute_many(_ADD, sorted(ours.items()))
        return dict(await tx.fetch("SELECT name, fingerprint FROM secret_fingerprints"))

    other = ours.items() - (await database.write(store)).items()
    if other:
        raise ConfigurationError(
            f"this database was used with another {' and '.join(sorted(dict(other)))}: "
            + SHARE_SECRETS.format(data=data)
        )


async def forget_secrets(database: Database) -> None:
    """Delete the fingerprints, so that hosts can start with other secrets."""
    await database.write(lambda tx: tx.execute("DELETE FROM secret_fingerprints"))


_ADD = "INSERT INTO secret_fingerprints (name, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING"

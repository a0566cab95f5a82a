"""The Ed25519 keys that sign webhook messages: the current one and, in a rotation, the old one."""

from base64 import b64decode
from collections.abc import Sequence
from secrets import token_bytes

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.kit.database import SQLITE, Database, Transaction
from barograph.kit.fingerprints import fingerprint, replace_fingerprint
from barograph.kit.operating_system import load_or_create_secret, make_secret, replace_file
from barograph.settings import Settings

FILE_NAME, SETTING = "webhook-key", "BAROGRAPH_WEBHOOK_KEY"
SIZE = 32

Keys = Sequence[Ed25519PrivateKey]
"""The current key, then the old one."""


def load_webhook_keys(settings: Settings, *, create: bool = True) -> Keys:
    """The keys from BAROGRAPH_WEBHOOK_KEY, or from a file that the first process creates.

    Raises:
        ConfigurationError: the setting or the file is not a key, or no file can be created.
    """
    secret = load_webhook_secret(settings, create=create)
    parts = (secret[start : start + SIZE] for start in range(0, len(secret), SIZE))
    return [Ed25519PrivateKey.from_private_bytes(part) for part in parts]


def load_webhook_secret(settings: Settings, *, create: bool = True) -> bytes:
    """The same keys as bytes."""
    given, file = settings.webhook_key.get_secret_value(), settings.data / FILE_NAME
    if not given:
        loss = "makes receivers refuse `v1a` signatures until they read the new public key"
        return load_or_create_secret(file, SIZE, setting=SETTING, loss=loss, create=create, most=2)
    try:
        keys = [b64decode(text.strip(), validate=True) for text in given.split(",")]
    except ValueError:
        keys = []
    if [len(key) for key in keys] not in ([SIZE], [SIZE, SIZE]):
        raise ConfigurationError(
            f"{SETTING} must be {SIZE} bytes in base64, or two such keys separated by a comma"
        ) from None
    return b"".join(keys)


def is_on_this_host(settings: Settings) -> bool:
    """Whether there are keys; this creates none."""
    return bool(settings.webhook_key.get_secret_value()) or (settings.data / FILE_NAME).exists()


async def shared_webhook_keys(database: Database, settings: Settings) -> Keys:
    """The keys, if they are those that the web hosts publish; SQLite serves one host.

    Raises:
        ConfigurationError: this host has none yet, or others.
    """
    await take_stored_key(database, settings)
    published = [shared for (shared,) in await database.fetch(_FINGERPRINT, FILE_NAME)]
    is_here = database.engine == SQLITE or is_on_this_host(settings)
    if not is_here or published not in ([], [fingerprint(load_webhook_secret(settings))]):
        raise ConfigurationError(f"copy {FILE_NAME} from the data folder of a web host")
    return load_webhook_keys(settings)


def rotate_webhook_key(settings: Settings, *, retire: bool) -> bytes:
    """Put a new key before the current one, or drop the old one; return what the file holds now.

    Raises:
        ConfigurationError: the keys are in a setting, or the other step is next.
    """
    if settings.webhook_key.get_secret_value():
        raise ConfigurationError(
            f"the key is in {SETTING}: change it on every host, and run `barograph db upgrade "
            "--new-secrets`"
        )
    secret = load_webhook_secret(settings, create=False)
    if retire != (len(secret) > SIZE):
        raise ConfigurationError(
            "there is no old key: begin a rotation without --retire"
            if retire
            else "two keys already sign: end that rotation with --retire first"
        )
    draft = settings.data / f"{FILE_NAME}.next"
    draft.unlink(missing_ok=True)
    secret = make_secret(draft, secret[:SIZE] if retire else token_bytes(SIZE) + secret)
    replace_file(draft, settings.data / FILE_NAME)
    return secret


async def take_stored_key(database: Database, settings: Settings) -> None:
    """Copy the key that earlier versions kept in the database to a file.

    PostgreSQL also keeps it until it is rotated, for the hosts that are upgraded later. SQLite
    keeps it only if the setting names other keys.
    """
    is_sqlite = database.engine == SQLITE
    for (stored,) in await database.fetch("SELECT private_key FROM webhook_keys LIMIT 1"):
        key = b64decode(stored)
        if not is_on_this_host(settings):
            make_secret(settings.data / FILE_NAME, key)
        if is_sqlite and key in load_webhook_secret(settings):
            await database.write(lambda tx: tx.execute(_FORGET))


async def expect_webhook_key(tx: Transaction, secret: bytes) -> None:
    """Let hosts start only with these keys, and delete the key of earlier versions."""
    await tx.execute(_FORGET)
    await replace_fingerprint(tx, FILE_NAME, secret)


_FINGERPRINT = "SELECT fingerprint FROM secret_fingerprints WHERE name = $1"
_FORGET = "DELETE FROM webhook_keys"

"""The key that signs checkpoints: a setting, or a file that is made once."""

from base64 import b64decode
from binascii import Error as NotBase64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.kit.secret_file import kept_secret
from barograph.settings import Settings

FILE_NAME = "history-key"
SIZE = 32


def load_history_key(settings: Settings) -> Ed25519PrivateKey:
    """The key of this instance; every process gets the same, also when all start at once.

    Raises:
        ConfigurationError: the setting or its file is not such a key, or no file can be made.
    """
    given = settings.history_key.get_secret_value()
    return Ed25519PrivateKey.from_private_bytes(_decode(given) if given else _kept(settings))


def _decode(given: str) -> bytes:
    try:
        secret = b64decode(given, validate=True)
    except (NotBase64, ValueError):
        secret = b""
    if len(secret) != SIZE:  # without the cause, which may hold part of the secret
        raise ConfigurationError(f"BAROGRAPH_HISTORY_KEY must be {SIZE} bytes in base64") from None
    return secret


def _kept(settings: Settings) -> bytes:
    file = settings.data / FILE_NAME
    try:
        secret = kept_secret(file, SIZE)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make {settings.data} a folder that can be "
            "written, or set BAROGRAPH_HISTORY_KEY"
        ) from error
    if len(secret) != SIZE:
        raise ConfigurationError(
            f"{file} is damaged: put back the file of {SIZE} bytes, or delete it, after which "
            "checkpoints are signed by a new key that nobody knows yet"
        )
    return secret

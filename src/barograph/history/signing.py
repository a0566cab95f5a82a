"""The key that signs this instance's checkpoints."""

import os
from base64 import b64decode
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import public_bytes
from barograph.kit.operating_system import load_or_create_secret, replace_file
from barograph.settings import Settings

FILE_NAME = "history-key"
NEXT_FILE = "history-key.next"
SIZE = 32


def load_history_key(settings: Settings, *, create: bool = True) -> Ed25519PrivateKey:
    """The key from BAROGRAPH_HISTORY_KEY, or from a file that the first process creates.

    Pass `create=False` while the operator may be replacing it: a new key would overwrite a file
    that is still being copied.

    Raises:
        ConfigurationError: the setting or the file is not a key, or no file can be created.
    """
    if not is_key_in_file(settings):
        return decode_history_key(settings.history_key.get_secret_value())
    return _load_file(settings, FILE_NAME, create=create)


def is_key_in_file(settings: Settings) -> bool:
    """Whether the key is in the data folder, and not in a setting."""
    return not settings.history_key.get_secret_value()


def existing_key(settings: Settings) -> Ed25519PrivateKey | None:
    """The key, if there is one; this creates no file."""
    is_missing = is_key_in_file(settings) and not (settings.data / FILE_NAME).exists()
    return None if is_missing else load_history_key(settings, create=False)


def decode_history_key(text: str) -> Ed25519PrivateKey:
    """Decode a key in the format of BAROGRAPH_HISTORY_KEY.

    Raises:
        ConfigurationError: it is not a key.
    """
    try:
        secret = b64decode(text.strip(), validate=True)
    except ValueError:
        secret = b""
    if len(secret) != SIZE:  # without the cause, which may hold part of the secret
        raise ConfigurationError(f"BAROGRAPH_HISTORY_KEY must be {SIZE} bytes in base64") from None
    return Ed25519PrivateKey.from_private_bytes(secret)


def staged_key(settings: Settings) -> Ed25519PrivateKey:
    """A new key in a file next to the current one, where a later run finds it again.

    Raises:
        ConfigurationError: the file can't be created.
    """
    return _load_file(settings, NEXT_FILE)


def install_staged_key(settings: Settings, current: bytes | None) -> bool:
    """Put the staged key in place if it is the `current` one; the old file is kept aside.

    Returns whether it was.
    """
    file, staged = settings.data / FILE_NAME, settings.data / NEXT_FILE
    if not staged.exists() or public_bytes(staged_key(settings)) != current:
        return False
    if file.exists():
        old = public_bytes(_load_file(settings, FILE_NAME)).hex()[:8]
        with suppress(FileExistsError):
            os.link(file, file.with_name(f"{FILE_NAME}.{old}.retired"))
    replace_file(staged, file)
    return True


def drop_staged_key(settings: Settings, current: bytes | None) -> None:
    """Delete the staged key, unless it is the `current` one."""
    if public_bytes(staged_key(settings)) != current:
        (settings.data / NEXT_FILE).unlink(missing_ok=True)


def _load_file(settings: Settings, name: str, *, create: bool = True) -> Ed25519PrivateKey:
    secret = load_or_create_secret(
        settings.data / name,
        SIZE,
        setting="BAROGRAPH_HISTORY_KEY",
        loss="ends the public log: `barograph stances resume` starts a new one",
        create=create,
    )
    return Ed25519PrivateKey.from_private_bytes(secret)

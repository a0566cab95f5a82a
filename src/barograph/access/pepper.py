"""The secret that API keys are stored under: a setting, or a file that is made once."""

import fcntl
import os
from pathlib import Path
from secrets import token_bytes

from barograph.errors import ConfigurationError
from barograph.settings import Settings

FILE_NAME = "key-pepper"
SIZE = 32


def load_pepper(settings: Settings) -> bytes:
    """The pepper of this instance; every process gets the same, also when all start at once.

    Raises:
        ConfigurationError: its file cannot be read or made, or holds something else.
    """
    given = settings.key_pepper.get_secret_value()
    if given:
        return given.encode()
    file = settings.data / FILE_NAME
    try:
        pepper = _read(file) or _make(file)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make {settings.data} a folder that can be "
            "written, or set BAROGRAPH_KEY_PEPPER"
        ) from error
    if len(pepper) != SIZE:
        raise ConfigurationError(
            f"{file} is damaged: put back the file of {SIZE} bytes, or delete it, after which "
            "every API key stops working"
        )
    return pepper


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _make(file: Path) -> bytes:
    """Write a new pepper unless somebody else was first."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        found = out.read()
        if found:
            return found
        pepper = token_bytes(SIZE)
        out.write(pepper)
        out.flush()
        os.fsync(out.fileno())
    _sync_folder(file.parent)
    return pepper


def _sync_folder(folder: Path) -> None:
    """Make a new file's name last: keys that a power cut parts from their pepper are lost."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A secret of random bytes in a file that is made once, also when many processes start at once."""

import fcntl
import os
import stat
from pathlib import Path
from secrets import token_bytes

from barograph.errors import ConfigurationError

OWNER_ONLY = 0o600


def load_or_create_secret(file: Path, size: int) -> bytes:
    """What the file holds; `size` new random bytes are put there when it is missing or empty.

    Only its owner can read a file that is made here.

    Raises:
        ConfigurationError: every user of the machine may read or change it.
        OSError: it can neither be read nor made.
    """
    secret = _read(file)
    if not secret:
        return _make(file, size)
    if is_exposed(file):
        raise ConfigurationError(
            f"every user of this machine may read or change {file}: run `chmod 600 {file}`, and "
            "replace the secret if someone may have read it"
        )
    return secret


def is_exposed(file: Path) -> bool:
    """Whether every user of the machine may read or change a file, by its mode."""
    return file.exists() and bool(file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))


def is_world_writable(folder: Path) -> bool:
    """Whether every user of the machine may add and replace files in a folder."""
    return folder.exists() and bool(folder.stat().st_mode & stat.S_IWOTH)


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _make(file: Path, size: int) -> bytes:
    """Write a new secret unless somebody else was first."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(descriptor, "r+b") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        found = out.read()
        if found:
            return found
        os.fchmod(descriptor, OWNER_ONLY)  # an empty file may have been left with another mode
        secret = token_bytes(size)
        out.write(secret)
        out.flush()
        os.fsync(out.fileno())
    _sync_folder(file.parent)
    return secret


def _sync_folder(folder: Path) -> None:
    """Make a new file's name last: what a power cut parts from its secret is lost."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

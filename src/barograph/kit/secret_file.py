"""A secret of random bytes in a file that is made once, also when many processes start at once."""

import fcntl
import os
from pathlib import Path
from secrets import token_bytes


def kept_secret(file: Path, size: int) -> bytes:
    """What the file holds; `size` new random bytes are put there when it is missing or empty.

    Only its owner can read a file that is made here.

    Raises:
        OSError: it can neither be read nor made.
    """
    return _read(file) or _make(file, size)


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _make(file: Path, size: int) -> bytes:
    """Write a new secret unless somebody else was first."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        found = out.read()
        if found:
            return found
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

"""The references that subscribers keep: a small file, replaced as a whole by one at a time."""

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

import msgspec

from barograph.client.errors import ReferencesUnusable
from barograph.client.wire import Reference


class ReferenceFile:
    """The newest reference of each kind, in a JSON file that only its owner can read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Reference]:
        """What is kept, by kind; nothing when there is no file yet.

        Raises:
            ReferencesUnusable: the file cannot be read, or holds something else.
        """
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=dict[str, Reference])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ReferencesUnusable(f"{self.path} cannot be read ({error.strerror})") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ReferencesUnusable(
                f"{self.path} holds no references: move it away to begin anew"
            ) from error

    def write(self, changed: Mapping[str, Reference]) -> None:
        """Put these beside the other kinds that are kept, whole or not at all.

        Raises:
            ReferencesUnusable: that is not possible.
        """
        self.prepare(changed).take_place()

    def prepare(self, changed: Mapping[str, Reference]) -> "PreparedFile":
        """Write what will be kept, which takes as long as the disk and other writers do.

        Nobody else writes until it has taken its place or was dropped.

        Raises:
            ReferencesUnusable: that is not possible.
        """
        try:
            lock = _locked(self.path)
        except OSError as error:
            raise _not_writable(self.path, error) from error
        try:
            merged = {**self.read(), **changed}
            written = _written(self.path, msgspec.json.encode(merged) + b"\n")
        except OSError as error:
            lock.close()
            raise _not_writable(self.path, error) from error
        except BaseException:
            lock.close()
            raise
        return PreparedFile(written, self.path, lock)


class PreparedFile:
    """References that are on the disk and not in their place yet."""

    def __init__(self, written: Path, path: Path, lock: BinaryIO) -> None:
        self._written = written
        self._path = path
        self._lock = lock

    def take_place(self) -> None:
        """Replace what is kept: one rename, and the folder's word that it lasts.

        Raises:
            ReferencesUnusable: that is not possible, and what is kept stays.
        """
        with self._lock:
            try:
                self._written.replace(self._path)
            except OSError as error:
                self._written.unlink(missing_ok=True)
                raise _not_writable(self._path, error) from error
            _sync_folder(self._path.parent)

    def drop(self) -> None:
        """Leave what is kept as it is."""
        with self._lock:
            self._written.unlink(missing_ok=True)


def _locked(path: Path) -> BinaryIO:
    """A file beside it that one writer holds at a time; the file itself is replaced by each."""
    name = path.with_name(f".{path.name}.lock")
    lock = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except BaseException:
        lock.close()
        raise
    return lock


def _written(path: Path, content: bytes) -> Path:
    descriptor, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # its mode is 600
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _sync_folder(folder: Path) -> None:
    """Make the new name last; where that fails, a power cut may bring the old file back."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _not_writable(path: Path, error: OSError) -> ReferencesUnusable:
    return ReferencesUnusable(f"{path} cannot be written ({error.strerror})")

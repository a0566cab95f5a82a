"""The file in which a subscriber keeps references, replaced atomically under a lock."""

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

import msgspec

from barograph_client.decode import decode_json
from barograph_client.errors import ReferencesUnusable
from barograph_client.records import Reference


class ReferenceFile:
    """The newest reference of each kind, in a JSON file that only its owner can read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Reference]:
        """The kept references, by kind; none if there is no file yet.

        Raises:
            ReferencesUnusable: the file can't be read, or is not a file of references.
        """
        try:
            return decode_json(dict[str, Reference], self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ReferencesUnusable(f"{self.path} can't be read ({error.strerror})") from error
        except ValueError as error:
            raise ReferencesUnusable(
                f"{self.path} is not a file of references: move it away to start again"
            ) from error

    def write(self, changed: Mapping[str, Reference]) -> None:
        """Replace the references of these kinds and keep the others, atomically.

        Raises:
            ReferencesUnusable: the file can't be written.
        """
        self.prepare(changed).take_place()

    def prepare(self, changed: Mapping[str, Reference]) -> "PreparedFile":
        """Write the new file beside the old one; this may wait for the disk and other writers.

        The lock is held until the file has taken its place or was dropped.

        Raises:
            ReferencesUnusable: the file can't be written.
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
    """New references on disk that have not replaced the old file yet."""

    def __init__(self, written: Path, path: Path, lock: BinaryIO) -> None:
        self._written = written
        self._path = path
        self._lock = lock

    def take_place(self) -> None:
        """Replace the old file: rename, then sync the folder.

        Raises:
            ReferencesUnusable: the file can't be replaced; the old one stays.
        """
        with self._lock:
            try:
                self._written.replace(self._path)
            except OSError as error:
                self._written.unlink(missing_ok=True)
                raise _not_writable(self._path, error) from error
            _sync_folder(self._path.parent)

    def drop(self) -> None:
        """Delete the new file and keep the old one."""
        with self._lock:
            self._written.unlink(missing_ok=True)


def _locked(path: Path) -> BinaryIO:
    """Lock a file beside it, because each write replaces the file itself."""
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
    """Make the rename durable; if that fails, a power cut may bring the old file back."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _not_writable(path: Path, error: OSError) -> ReferencesUnusable:
    return ReferencesUnusable(f"{path} can't be written ({error.strerror})")

"""The references that a subscriber keeps: a small file, replaced as a whole."""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

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

    def write(self, references: Mapping[str, Reference]) -> None:
        """Put these in place of what is kept, whole or not at all.

        Raises:
            ReferencesUnusable: that is not possible.
        """
        self.prepare(references).take_place()

    def prepare(self, references: Mapping[str, Reference]) -> "PreparedFile":
        """Write these beside what is kept, which takes as long as the disk does.

        Raises:
            ReferencesUnusable: that is not possible.
        """
        try:
            written = _written(self.path, msgspec.json.encode(references) + b"\n")
        except OSError as error:
            raise _not_writable(self.path, error) from error
        return PreparedFile(written, self.path)


class PreparedFile:
    """References that are on the disk and not in their place yet."""

    def __init__(self, written: Path, path: Path) -> None:
        self._written = written
        self._path = path

    def take_place(self) -> None:
        """Replace what is kept: one rename.

        Raises:
            ReferencesUnusable: that is not possible, and what is kept stays.
        """
        try:
            self._written.replace(self._path)
        except OSError as error:
            self.drop()
            raise _not_writable(self._path, error) from error

    def drop(self) -> None:
        """Leave what is kept as it is."""
        self._written.unlink(missing_ok=True)


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


def _not_writable(path: Path, error: OSError) -> ReferencesUnusable:
    return ReferencesUnusable(f"{path} cannot be written ({error.strerror})")

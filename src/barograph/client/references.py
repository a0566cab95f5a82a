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
        try:
            _replace(self.path, msgspec.json.encode(references) + b"\n")
        except OSError as error:
            raise ReferencesUnusable(f"{self.path} cannot be written ({error.strerror})") from error


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # its mode is 600
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

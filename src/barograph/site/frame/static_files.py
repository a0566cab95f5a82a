"""The files that pages are made of.

Each is read once, with what stands for its content in its address: whatever happens to the file
while a worker lives, an address never comes to mean other bytes.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

from barograph.site.frame.responses import (
    CSS,
    KEEP,
    KEEP_FOR_EVER,
    LOOK_EACH_TIME,
    PNG,
    SCRIPT,
    SVG,
    Page,
)

TYPES = {".css": CSS, ".js": SCRIPT, ".svg": SVG, ".png": PNG, ".ico": b"image/x-icon"}
_ANOTHER = b"v="


class StaticFile(NamedTuple):
    """A file as it was when it was read."""

    version: str
    """What stands for its content."""

    pages: Mapping[bytes, Page]
    """What is answered, by the query that stands for all that ask for the same."""

    def usual_query(self, version: str | None) -> bytes:
        """The query that stands for one with this version, or with none."""
        if version is None:
            return b""
        return _query(version) if version == self.version else _ANOTHER


class StaticFiles:
    """All files of a folder."""

    def __init__(self, folder: Traversable) -> None:
        known = (each for each in folder.iterdir() if PurePosixPath(each.name).suffix in TYPES)
        self._files = {each.name: _read(each) for each in known}

    @property
    def names(self) -> Iterable[str]:
        """What they are called."""
        return self._files.keys()

    def get(self, name: str) -> StaticFile | None:
        """A file by its name."""
        return self._files.get(name)

    def version(self, name: str) -> str:
        """What stands for the content of a file that is there."""
        return self._files[name].version


@cache
def packaged_files() -> StaticFiles:
    """The files that come with the service."""
    return StaticFiles(files("barograph.site") / "static")


def _read(file: Traversable) -> StaticFile:
    body = file.read_bytes()
    content_type = TYPES[PurePosixPath(file.name).suffix]
    version = sha256(body).hexdigest()[:12]
    kept = {
        b"": KEEP,
        # Pages have it by an address that changes with it: what that names stays for ever.
        _query(version): KEEP_FOR_EVER,
        # The content of another release, which another worker may have: not to be kept as that.
        _ANOTHER: LOOK_EACH_TIME,
    }
    pages = {
        query: Page(body, content_type=content_type, cache_control=cache_control)
        for query, cache_control in kept.items()
    }
    return StaticFile(version, pages)


def _query(version: str) -> bytes:
    return b"v=" + version.encode()

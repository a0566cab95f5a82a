"""Static files: each is read once, and its URL contains a hash of its content.

A worker serves the content it read at startup, even if the file changes later.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

from barograph.site.client_package import client_wheel
from barograph.site.responses import (
    CACHE_FOREVER,
    CACHE_ONE_HOUR,
    CSS,
    PNG,
    REVALIDATE,
    SCRIPT,
    SVG,
    TEXT,
    Page,
)

TYPES = {
    ".css": CSS,
    ".js": SCRIPT,
    ".svg": SVG,
    ".png": PNG,
    ".ico": b"image/x-icon",
    ".py": TEXT,
    ".whl": b"application/zip",
}
_OTHER_VERSION = b"v="


class StaticFile(NamedTuple):
    """A file as it was at startup."""

    version: str
    """The start of the content's SHA-256."""

    pages: Mapping[bytes, Page]
    """Responses by canonical query; they differ in `Cache-Control`."""

    def canonical_query(self, version: str | None) -> bytes:
        """The query under which the response for this version is cached."""
        if version is None:
            return b""
        return _query(version) if version == self.version else _OTHER_VERSION


StaticFiles = Mapping[str, StaticFile]
"""Files by name."""


def read_static_files(folder: Traversable) -> StaticFiles:
    """All static files of a folder."""
    return {
        each.name: _static_file(each.name, each.read_bytes())
        for each in folder.iterdir()
        if PurePosixPath(each.name).suffix in TYPES
    }


@cache
def packaged_files() -> StaticFiles:
    """The files that are part of the package, and the client."""
    name, content = client_wheel()
    own = read_static_files(files("barograph.site") / "static")
    return {**own, name: _static_file(name, content)}


def _static_file(name: str, body: bytes) -> StaticFile:
    content_type = TYPES[PurePosixPath(name).suffix]
    version = sha256(body).hexdigest()[:12]
    cache_controls = {
        b"": CACHE_ONE_HOUR,
        _query(version): CACHE_FOREVER,
        # The client asked for another release's file, which another worker may serve.
        _OTHER_VERSION: REVALIDATE,
    }
    pages = {
        query: Page(body, content_type=content_type, cache_control=cache_control)
        for query, cache_control in cache_controls.items()
    }
    return StaticFile(version, pages)


def _query(version: str) -> bytes:
    return b"v=" + version.encode()

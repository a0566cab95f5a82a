"""Static files, and the client as a wheel: each is read once, and its URL contains a hash.

A worker serves the content it read at startup, even if a file changes later.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import PurePosixPath
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

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
from barograph.venues.registry import VENUES

_PACKAGE = "barograph_client"
_INFO_FILES = ("METADATA", "WHEEL", "entry_points.txt")
_KEPT = (".py", ".typed")


class Wheel(NamedTuple):
    """A wheel and its file name, which pip reads."""

    name: str
    content: bytes


@cache
def client_wheel() -> Wheel:
    """The client that is installed here."""
    client = distribution(_PACKAGE)
    release = f"{_PACKAGE}-{client.version}"
    info = f"{release}.dist-info"
    entries = dict(_source_files(files(_PACKAGE), _PACKAGE))
    entries |= {f"{info}/{name}": _info(client, name) for name in _INFO_FILES}
    record = f"{info}/RECORD"
    lines = [f"{name},{_digest(content)},{len(content)}" for name, content in entries.items()]
    entries[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            # `ZipInfo` has a fixed date, so every worker serves the same bytes.
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return Wheel(f"{release}-py3-none-any.whl", packed.getvalue())


def _source_files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = f"{path}/{each.name}"
        if each.is_dir():
            yield from _source_files(each, name)
        elif PurePosixPath(name).suffix in _KEPT:
            yield name, each.read_bytes()


def _info(client: Distribution, name: str) -> bytes:
    text = client.read_text(name) or ""
    if name == "METADATA":  # without the description, whose links lead to files of the project
        text = text.partition("\n\n")[0] + "\n"
    return text.encode()


def _digest(content: bytes) -> str:
    return "sha256=" + urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()


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
    folder = files("barograph.site") / "static"
    styled = (folder / "site.css").read_bytes() + venue_colours().encode()
    return {
        **read_static_files(folder),
        "site.css": _static_file("site.css", styled),
        name: _static_file(name, content),
    }


def venue_colours() -> str:
    """The rules for what is drawn in the colour of a venue."""
    rules = (
        f".of-{name} {{ fill: light-dark({', '.join(venue.colours)}); }}"
        for name, venue in VENUES.items()
    )
    return "\n" + "\n".join(rules) + "\n"


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

"""Tiles and entry bundles of a log, as in https://c2sp.org/tlog-tiles (pure).

A tile has up to 256 hashes of one level; each hash of level L covers 256 ** L entries. An entry is
the digest of a recorded document.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from barograph_client.audit.trees import tile_path

TILE_LEVEL = 8
TILE_WIDTH = 1 << TILE_LEVEL
HIGHEST_LEVEL = 63

_TILE = re.compile(
    r"(entries|[0-9]{1,2})/((?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/([0-9]{1,3}))?", re.ASCII
)


class Tile(NamedTuple):
    """The address of a tile, or of a bundle of entries."""

    level: int | None
    """None for entries."""

    number: int
    width: int

    @property
    def path(self) -> str:
        """The only spelling that is served, such as `0/x001/234.p/17`."""
        level = "entries" if self.level is None else self.level
        return tile_path(level, self.number, self.width).removeprefix("tile/")

    def exists_at(self, size: int) -> bool:
        """Whether a tree of `size` entries has all of it."""
        last = self.number * TILE_WIDTH + self.width
        return last << TILE_LEVEL * (self.level or 0) <= size


def parse_tile(path: str) -> Tile | None:
    """Read the path below `tile/`; None unless it is written as `Tile.path` writes it."""
    match = _TILE.fullmatch(path)
    if match is None:
        return None
    level, number, width = match.groups()
    tile = Tile(
        None if level == "entries" else int(level),
        int(number.replace("x", "").replace("/", "")),
        TILE_WIDTH if width is None else int(width),
    )
    is_valid = (tile.level or 0) <= HIGHEST_LEVEL and 0 < tile.width <= TILE_WIDTH
    return tile if is_valid and tile.path == path else None


def entry_bundle(digests: Iterable[str]) -> bytes:
    """The entries of a bundle, each after its length."""
    return b"".join(b"\0\x20" + bytes.fromhex(digest) for digest in digests)

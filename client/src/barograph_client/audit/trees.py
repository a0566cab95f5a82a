"""RFC 6962 trees and their tiles, https://c2sp.org/tlog-tiles (pure)."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

WIDTH = 256
"""The hashes of a full tile, and the entries of a full bundle."""


def leaf_hash(entry: bytes) -> bytes:
    """The leaf of an entry."""
    return sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return sha256(b"\1" + left + right).digest()


def tree_root(hashes: Sequence[bytes]) -> bytes:
    """The root over leaves, or over the roots of full subtrees of one size."""
    if not hashes:
        return sha256(b"").digest()
    while len(hashes) > 1:
        pairs = zip(hashes[::2], hashes[1::2], strict=False)
        odd = hashes[-1:] if len(hashes) % 2 else []
        hashes = [*(node_hash(*pair) for pair in pairs), *odd]
    return hashes[0]


def proven_root(hashed: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root of the tree that has this leaf at `index`, according to an inclusion proof.

    Raises:
        ValueError: the proof has the wrong length for that leaf.
    """
    if not 0 <= index < size or (size == 1) != (not proof):
        raise ValueError("the inclusion proof has the wrong length")
    if size == 1:
        return hashed
    split = 1 << (size - 1).bit_length() - 1
    *lower, sibling = proof
    if index < split:
        return node_hash(proven_root(hashed, index, split, lower), sibling)
    return node_hash(sibling, proven_root(hashed, index - split, size - split, lower))


def tiles_of(count: int) -> Iterator[tuple[int, int]]:
    """The number and width of each tile that holds `count` hashes; the last one may be partial."""
    for index in range(-(-count // WIDTH)):
        yield index, min(WIDTH, count - index * WIDTH)


def tile_path(level: int | str, index: int, width: int = WIDTH) -> str:
    """The path of a tile, or of a bundle of entries if the level is `entries`."""
    name, rest = f"{index % 1000:03}", index // 1000
    while rest:
        name, rest = f"x{rest % 1000:03}/{name}", rest // 1000
    return f"tile/{level}/{name}" + (f".p/{width}" if width < WIDTH else "")

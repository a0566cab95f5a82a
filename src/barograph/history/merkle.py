"""RFC 6962 Merkle trees over a list of digests (pure).

A leaf is SHA-256(0x00 || digest), a node SHA-256(0x01 || left || right). Every hash of a proof is
the root of one range of the list. Callers that have stored some subtree roots get the ranges of a
proof and hash only the rest.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

EMPTY_ROOT = sha256(b"").digest()


class NotADigest(ValueError):
    """A text that should be a digest in hex is not."""


class Range(NamedTuple):
    """The leaves from `start` up to, but not including, `end`; counted from zero."""

    start: int
    end: int


class TreeHead(NamedTuple):
    """The size and root of a tree."""

    size: int
    root: bytes


EMPTY_HEAD = TreeHead(0, EMPTY_ROOT)


class Peak(NamedTuple):
    """The root of a complete subtree of 2 ** `level` leaves."""

    level: int
    hash: bytes


class Frontier:
    """A growing tree, stored as its complete subtrees from left to right."""

    __slots__ = ("peaks",)

    def __init__(self) -> None:
        self.peaks: list[Peak] = []

    def add(self, hashed: bytes, level: int = 0) -> None:
        """Append the hash of a leaf, or the root of a complete subtree of 2 ** `level` leaves."""
        while self.peaks and self.peaks[-1].level == level:
            hashed = node_hash(self.peaks.pop().hash, hashed)
            level += 1
        self.peaks.append(Peak(level, hashed))

    def add_digests(self, digests: Iterable[str]) -> None:
        """Append a leaf for each digest."""
        # Hash all of them first, so that an invalid digest adds nothing.
        for leaf in [leaf_hash(digest) for digest in digests]:
            self.add(leaf)


def leaf_hash(digest: str) -> bytes:
    """The leaf of a digest.

    Raises:
        NotADigest: it is not lower-case hex.
    """
    try:
        content = bytes.fromhex(digest)
    except ValueError as error:
        raise NotADigest(f"{digest!r} is not a digest") from error
    if content.hex() != digest:  # in capitals, or with spaces in between
        raise NotADigest(f"{digest!r} is not a digest")
    return sha256(b"\0" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return sha256(b"\1" + left + right).digest()


def peaks_root(peaks: Sequence[Peak]) -> bytes:
    """The root of the tree with these complete subtrees, from left to right."""
    if not peaks:
        return EMPTY_ROOT
    root = peaks[-1].hash
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak.hash, root)
    return root


def tree_root(digests: Iterable[str]) -> bytes:
    """The root over a list of digests."""
    frontier = Frontier()
    frontier.add_digests(digests)
    return peaks_root(frontier.peaks)


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The ranges whose roots prove that leaf `index` is in the tree, from the leaf upwards."""
    start, end = 0, size
    ranges: list[Range] = []
    while end - start > 1:
        split = _split(start, end)
        if index < split:
            ranges.append(Range(split, end))
            end = split
        else:
            ranges.append(Range(start, split))
            start = split
    return ranges[::-1]


def consistency_ranges(older: int, size: int) -> list[Range]:
    """The ranges whose roots prove that the tree of `older` leaves begins the tree of `size`."""
    if older == 0:
        return []
    start, end = 0, size
    ranges: list[Range] = []
    while end != older:
        split = _split(start, end)
        if older <= split:
            ranges.append(Range(split, end))
            end = split
        else:
            ranges.append(Range(start, split))
            start = split
    if start > 0:  # otherwise this is the older tree itself, and the verifier has its root
        ranges.append(Range(start, end))
    return ranges[::-1]


def is_consistent(
    older: int, older_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether a proof shows that the newer tree begins with the older one."""
    if not 0 <= older <= size:
        return False
    ranges = consistency_ranges(older, size)
    if len(proof) != len(ranges):
        return False
    if older == 0:
        return older_root == EMPTY_ROOT
    hashes = list(proof)
    if ranges and ranges[0].end == older:
        # The proof begins with the last complete subtree of the older tree.
        found_older = found = hashes.pop(0)
        ranges = ranges[1:]
    else:
        found_older = found = older_root
    for (start, _), hashed in zip(ranges, hashes, strict=True):
        if start >= older:
            found = node_hash(found, hashed)
        else:
            found, found_older = node_hash(hashed, found), node_hash(hashed, found_older)
    return (found_older, found) == (older_root, root)


def _split(start: int, end: int) -> int:
    """Where a tree splits: after the largest power of two that is smaller than its size."""
    return start + (1 << (end - start - 1).bit_length() - 1)

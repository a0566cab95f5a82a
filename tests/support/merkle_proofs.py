"""Proofs from whole lists of digests, and whether one shows that a digest is in a tree."""

from collections.abc import Iterable, Sequence

from barograph.history.merkle import (
    Range,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    node_hash,
    tree_root,
)


def inclusion_proof(digests: Sequence[str], index: int) -> list[bytes]:
    return _roots(digests, inclusion_ranges(index, len(digests)))


def consistency_proof(digests: Sequence[str], older: int) -> list[bytes]:
    return _roots(digests, consistency_ranges(older, len(digests)))


def is_included(digest: str, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    if not 0 <= index < size:
        return False
    ranges = inclusion_ranges(index, size)
    if len(proof) != len(ranges):
        return False
    found = leaf_hash(digest)
    for (start, _), hashed in zip(ranges, proof, strict=True):
        is_right = start > index
        found = node_hash(found, hashed) if is_right else node_hash(hashed, found)
    return found == root


def _roots(digests: Sequence[str], ranges: Iterable[Range]) -> list[bytes]:
    return [tree_root(digests[start:end]) for start, end in ranges]

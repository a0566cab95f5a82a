"""RFC 6962 trees: known values, and a naive implementation as referee."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.history.merkle import (
    EMPTY_ROOT,
    Frontier,
    is_consistent,
    leaf_hash,
    peaks_root,
    tree_root,
)
from support.merkle_proofs import consistency_proof, inclusion_proof, is_included

LEAVES = [
    *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
    "606162636465666768696a6b6c6d6e6f",
]
"""The leaves that implementations of certificate transparency test themselves with."""

ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MOST = 70


def digest(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


DIGESTS = [digest(number) for number in range(MOST)]
sizes = st.integers(1, MOST)


def naive_root(leaves: Sequence[str]) -> bytes:
    """MTH of RFC 6962, section 2.1."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + bytes.fromhex(leaves[0])).digest()
    half = naive_split(len(leaves))
    return sha256(b"\x01" + naive_root(leaves[:half]) + naive_root(leaves[half:])).digest()


def naive_split(size: int) -> int:
    half = 1
    while half * 2 < size:
        half *= 2
    return half


def naive_path(index: int, leaves: Sequence[str]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1."""
    if len(leaves) == 1:
        return []
    half = naive_split(len(leaves))
    if index < half:
        return [*naive_path(index, leaves[:half]), naive_root(leaves[half:])]
    return [*naive_path(index - half, leaves[half:]), naive_root(leaves[:half])]


def naive_subproof(older: int, leaves: Sequence[str], *, is_whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962, section 2.1.2."""
    if older == len(leaves):
        return [] if is_whole else [naive_root(leaves)]
    half = naive_split(len(leaves))
    if older <= half:
        left = naive_subproof(older, leaves[:half], is_whole=is_whole)
        return [*left, naive_root(leaves[half:])]
    right = naive_subproof(older - half, leaves[half:], is_whole=False)
    return [*right, naive_root(leaves[:half])]


def damaged(proof: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Every proof that differs in one hash, one fewer or one more."""
    for place in range(len(proof)):
        yield [*proof[:place], bytes(32), *proof[place + 1 :]]
    yield [*proof, bytes(32)]
    if proof:
        yield list(proof[:-1])


@pytest.mark.parametrize("size", range(len(ROOTS)))
def test_roots_are_those_that_other_implementations_know(size: int) -> None:
    assert tree_root(LEAVES[:size]).hex() == ROOTS[size]


def test_proofs_are_the_known_ones() -> None:
    assert [step.hex() for step in inclusion_proof(LEAVES, 0)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    assert [step.hex() for step in consistency_proof(LEAVES, 6)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@given(st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=MOST))
def test_the_root_is_the_naive_one(digests: list[str]) -> None:
    assert tree_root(digests) == naive_root(digests)


@given(st.data())
def test_an_inclusion_proof_is_the_naive_one_and_no_other_is_accepted(data: st.DataObject) -> None:
    size = data.draw(sizes)
    index = data.draw(st.integers(0, size - 1))
    root, own = tree_root(DIGESTS[:size]), DIGESTS[index]
    proof = inclusion_proof(DIGESTS[:size], index)

    assert proof == naive_path(index, DIGESTS[:size])
    assert is_included(own, index, size, proof, root)
    for other in damaged(proof):
        assert not is_included(own, index, size, other, root)
    for other_index in {*range(-1, size + 2)} - {index}:
        assert not is_included(own, other_index, size, proof, root)
    assert not is_included(digest(-1), index, size, proof, root)
    assert not is_included(own, index, size, proof, bytes(32))


@given(st.data())
def test_a_consistency_proof_is_the_naive_one_and_no_other_is_accepted(data: st.DataObject) -> None:
    size = data.draw(sizes)
    older = data.draw(st.integers(1, size))
    before, after = tree_root(DIGESTS[:older]), tree_root(DIGESTS[:size])
    proof = consistency_proof(DIGESTS[:size], older)

    assert proof == naive_subproof(older, DIGESTS[:size], is_whole=True)
    assert is_consistent(older, before, size, after, proof)
    for other in damaged(proof):
        assert not is_consistent(older, before, size, after, other)
    assert not is_consistent(older, bytes(32), size, after, proof)
    assert not is_consistent(older, before, size, bytes(32), proof)


def test_every_tree_continues_the_empty_one_and_none_a_larger_one() -> None:
    root = tree_root(DIGESTS)
    assert consistency_proof(DIGESTS, 0) == []
    assert is_consistent(0, EMPTY_ROOT, MOST, root, [])
    assert not is_consistent(0, root, MOST, root, [])
    assert not is_consistent(7, tree_root(DIGESTS[:7]), 6, tree_root(DIGESTS[:6]), [])


@given(st.integers(0, 16), st.integers(0, 15))
def test_whole_subtrees_count_as_their_leaves(blocks: int, rest: int) -> None:
    digests = [digest(number) for number in range(blocks * 16 + rest)]
    frontier = Frontier()
    for block in range(blocks):
        frontier.add(tree_root(digests[block * 16 : block * 16 + 16]), level=4)
    for each in digests[blocks * 16 :]:
        frontier.add(leaf_hash(each))

    assert peaks_root(frontier.peaks) == tree_root(digests)


def test_a_long_list_is_never_held_as_a_whole() -> None:
    frontier = Frontier()
    most = 0
    for _ in range(100_000):
        frontier.add(bytes(32))
        most = max(most, len(frontier.peaks))

    assert most <= 17

"""A log that is followed as it grows gives the roots and proofs of all its entries."""

import asyncio
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest

from barograph.history.merkle import TreeHead, is_consistent, tree_root
from barograph.history.public_log import BLOCK, LogTree
from barograph.history.reader import HistoryRewritten
from support.merkle_proofs import consistency_proof, inclusion_proof

TEXTS = [
    f'{{"at":"1970-01-01T00:00:00.000Z","id":{number},"type":"t"}}'
    for number in range(1, 3 * BLOCK + 8)
]
DIGESTS = [sha256(text.encode()).hexdigest() for text in TEXTS]
SIZES = [1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 100, len(DIGESTS)]


class Listed:
    """Events that count how many were read."""

    def __init__(self, size: int) -> None:
        self.digests = DIGESTS[:size]
        self.read = 0

    async def fetch(self, sql: str, after: int, limit: int) -> list[Any]:
        digests = self.digests[after : after + limit]
        self.read += len(digests)
        rows = enumerate(digests, after + 1)
        if "body" in sql:
            return [(number, own, TEXTS[DIGESTS.index(own)], "", "t", 0) for number, own in rows]
        return [(number, own, 0) for number, own in rows]


def log_of(listed: Any) -> LogTree:
    return LogTree(listed)


@pytest.mark.parametrize("size", [0, *SIZES])
async def test_the_head_is_the_root_over_the_whole_list_for_all_who_ask_at_once(size: int) -> None:
    listed = Listed(size)
    log = log_of(listed)

    heads = await asyncio.gather(*(log.head() for _ in range(20)))

    assert set(heads) == {(size, tree_root(DIGESTS[:size]))}
    assert listed.read <= size + 20


async def test_a_log_that_grew_reads_only_what_is_new() -> None:
    listed = Listed(0)
    log = log_of(listed)
    for before, size in pairwise([0, *SIZES, len(DIGESTS)]):
        listed.digests, listed.read = DIGESTS[:size], 0
        assert await log.head() == (size, tree_root(DIGESTS[:size]))
        assert listed.read <= size - before + 1


@pytest.mark.parametrize("size", SIZES)
async def test_proofs_of_every_size_are_those_over_the_list(size: int) -> None:
    listed = Listed(len(DIGESTS))
    log = log_of(listed)
    head = await log.head()

    assert await log.root(size, head) == tree_root(DIGESTS[:size])
    for place in {0, size // 3, size - 1}:
        listed.read = 0
        proof = inclusion_proof(DIGESTS[:size], place)
        assert await log.inclusion_proof(place, size) == proof
        assert listed.read < 2 * BLOCK
    for older in (smaller for smaller in SIZES if smaller <= size):
        proof = consistency_proof(DIGESTS[:size], older)
        before, after = tree_root(DIGESTS[:older]), tree_root(DIGESTS[:size])
        listed.read = 0
        assert await log.root_and_consistency(older, TreeHead(size, after)) == (before, proof)
        assert listed.read < 3 * BLOCK
        assert is_consistent(older, before, size, after, proof)


@pytest.mark.parametrize("kept", [0, 4, 9])
async def test_a_list_that_was_cut_or_rewritten_gets_no_new_head(kept: int) -> None:
    listed = Listed(10)
    log = log_of(listed)
    await log.head()

    listed.digests = [*DIGESTS[:kept], *DIGESTS[100 : 110 if kept else 100]]
    with pytest.raises(HistoryRewritten, match="entry 10 contradicts a signed checkpoint"):
        await log.head()

"""The published lists as trees: what was read once is never read again for the next root.

A log keeps the root of every full block of digests and of what comes after them, so that a
checkpoint costs the digests that are new, and a proof those of two blocks. It checks the hash chain
as it grows, and never publishes a head that contradicts one that was signed before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import product

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.history.checkpoint import (
    LOGS,
    Checkpoint,
    LogName,
    Published,
    log_origin,
    sign_checkpoint,
    verifier_of,
)
from barograph.history.digest import GENESIS
from barograph.history.guards import Continuity
from barograph.history.ledger import Ledger, Link, RecordDamaged
from barograph.history.merkle import (
    Frontier,
    Head,
    NotADigest,
    Range,
    consistency_ranges,
    inclusion_ranges,
    is_consistent,
    peaks_root,
)
from barograph.history.records import KINDS
from barograph.history.signing import SignedHeads
from barograph.kit.database import DatabaseUnavailable

BLOCK_LEVEL = 10
BLOCK = 1 << BLOCK_LEVEL
PAGE = 128
"""How many texts are hashed at a time; other requests wait meanwhile."""

ReadDigests = Callable[[int, int], Awaitable[list[str]]]
"""The digests after a sequence number, at most so many."""

ReadLinks = Callable[[int, int], Awaitable[list[Link]]]
"""The same, each checked against its text and with the digest before it."""


class HistoryRewritten(RecordDamaged):
    """The record is no longer the one that checkpoints were signed for."""


class PublicLog:
    """One list of digests, followed as it grows."""

    def __init__(self, read: ReadDigests, read_links: ReadLinks) -> None:
        self._read = read
        self._read_links = read_links
        self._growing = asyncio.Lock()
        self._blocks: list[bytes] = []
        self._whole = Frontier()
        self._rest = Frontier()
        self._size = 0
        self._newest = GENESIS

    async def head(self) -> Head:
        """The tree of all that is recorded now.

        Raises:
            DatabaseUnavailable: the record cannot be read.
            HistoryRewritten: its beginning is not what it was.
            RecordDamaged: what is new in it does not continue the chain.
        """
        async with self._growing:
            await self._expect_no_change()
            while await self._grow():
                pass
            return Head(self._size, peaks_root([*self._whole.peaks, *self._rest.peaks]))

    async def root(self, size: int, head: Head) -> bytes:
        """The root that the log had at `size`, which is at most that of `head`.

        Raises:
            HistoryRewritten: the tree of `head` did not grow out of it.
        """
        return (await self.growth(size, head))[0]

    async def growth(self, size: int, head: Head) -> tuple[bytes, list[bytes]]:
        """The root that the log had at `size`, and the proof that `head` grew out of it.

        Raises:
            HistoryRewritten: it did not.
        """
        root = await self._root(Range(0, size))
        proof = await self.consistency(size, head.size)
        if not is_consistent(size, root, head.size, head.root, proof):
            raise HistoryRewritten(f"the first {size} digests do not match the head")
        return root, proof

    async def require_growth(self, signed: Head, head: Head) -> None:
        """Check that a head does not contradict one that was signed before.

        Raises:
            HistoryRewritten: it is shorter, or of another list.
        """
        if signed.size > head.size or await self.root(signed.size, head) != signed.root:
            raise HistoryRewritten(
                f"the signed checkpoint of {signed.size} digests does not match the record"
            )

    async def inclusion(self, index: int, size: int) -> list[bytes]:
        """The proof that a leaf is in the tree of `size`."""
        return await self._roots(inclusion_ranges(index, size))

    async def consistency(self, older: int, size: int) -> list[bytes]:
        """The proof that the tree of `older` is the beginning of that of `size`."""
        return await self._roots(consistency_ranges(older, size))

    async def _expect_no_change(self) -> None:
        if self._size > 0 and await self._read(self._size - 1, 1) != [self._newest]:
            raise HistoryRewritten(
                f"digest {self._size} is not the one that a checkpoint was signed for"
            )

    async def _grow(self) -> bool:
        """Take in what fits into the block; whether there may be more."""
        wanted = min(PAGE, BLOCK - self._size % BLOCK)
        digests = chained(self._newest, await self._read_links(self._size, wanted))
        if not digests:
            return False
        _add(self._rest, digests)
        self._size += len(digests)
        self._newest = digests[-1]
        if self._size % BLOCK == 0:
            block = peaks_root(self._rest.peaks)
            self._blocks.append(block)
            self._whole.add(block, BLOCK_LEVEL)
            self._rest = Frontier()
        return len(digests) == wanted

    async def _roots(self, ranges: Sequence[Range]) -> list[bytes]:
        return [await self._root(each) for each in ranges]

    async def _root(self, leaves: Range) -> bytes:
        """The root over a range of a proof: one with a full block begins where a block does."""
        start, end = leaves
        frontier = Frontier()
        if end - start >= BLOCK:
            for block in self._blocks[start // BLOCK : end // BLOCK]:
                frontier.add(block, BLOCK_LEVEL)
            start = end // BLOCK * BLOCK
        if start < end:
            _add(frontier, await self._read(start, end - start))
        return peaks_root(frontier.peaks)


class PublicLogs:
    """The logs of all kinds, with the key that signs for them."""

    def __init__(
        self,
        ledger: Ledger,
        key: Ed25519PrivateKey,
        base_url: str,
        signed: SignedHeads,
        continuity: Continuity,
    ) -> None:
        """Take the record, and what it is checked against before anything is signed."""
        self._key = key
        self._signed = signed
        self._continuity = continuity
        self._base_url = base_url
        self._published: dict[tuple[str, LogName], Published] = {}
        self._logs: dict[tuple[str, LogName], PublicLog] = {}
        for kind, log in product(KINDS, LOGS):
            read = partial(ledger.log_digests, kind, log)
            self._logs[kind, log] = PublicLog(read, partial(ledger.links, kind, log))

    def log(self, kind: str, log: LogName) -> PublicLog:
        """One log."""
        return self._logs[kind, log]

    @property
    def public_key(self) -> bytes:
        """The public half of the key, the same for all logs."""
        return self._key.public_key().public_bytes_raw()

    async def checkpoints(self) -> list[Published]:
        """The newest checkpoint of every log.

        Raises:
            DatabaseUnavailable: the record cannot be read, or the signed head cannot be stored.
            RecordDamaged: the record is not the one that was recorded, published or signed.
        """
        try:
            published = [await self._checkpoint(*each) for each in product(KINDS, LOGS)]
        except DatabaseUnavailable as error:
            self._signed.failed(error)
            raise
        self._signed.worked()
        return published

    async def probe(self) -> None:
        """Try to sign, so that the status does not depend on requests."""
        with suppress(DatabaseUnavailable):
            await self.checkpoints()

    async def head(self, kind: str, log: LogName) -> Head:
        """The newest head of a log, stored as signed before it is published.

        Raises:
            DatabaseUnavailable: the record cannot be read, or the head cannot be stored.
            RecordDamaged: the record is not the one that was recorded, published or signed.
        """
        tree = self._logs[kind, log]
        await self._continuity.require(kind)
        while True:
            # Read before the head: what another worker signs meanwhile must not look longer.
            signed = await self._signed.last(kind, log)
            head = await tree.head()
            if head == signed:
                return head
            await tree.require_growth(signed, head)
            if await self._signed.advance(kind, log, signed, head):
                return head

    async def _checkpoint(self, kind: str, log: LogName) -> Published:
        origin = log_origin(self._base_url, kind, log)
        checkpoint = Checkpoint(origin, *await self.head(kind, log))
        kept = self._published.get((kind, log))
        if kept is None or kept.checkpoint != checkpoint:
            note = sign_checkpoint(checkpoint, self._key)
            kept = Published(kind, log, checkpoint, note, verifier_of(self._key, origin))
            self._published[kind, log] = kept
        return kept


def chained(previous: str, links: Sequence[Link]) -> list[str]:
    """The digests of links that continue a chain.

    Raises:
        RecordDamaged: one of them does not follow the one before it.
    """
    for link in links:
        if link.previous_digest != previous:
            raise RecordDamaged(
                f"the chain is broken at {link.digest}: run barograph stances verify"
            )
        previous = link.digest
    return [link.digest for link in links]


def _add(frontier: Frontier, digests: Sequence[str]) -> None:
    try:
        frontier.add_digests(digests)
    except NotADigest as error:
        raise RecordDamaged(f"a digest of the record is none: {error}") from error

"""The published lists as trees: what was read once is never read again for the next root.

A log keeps the root of every full block of digests and of what comes after them, so that a
checkpoint costs the digests that are new, and a proof those of two blocks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import BarographError
from barograph.stances.checkpoint import (
    LOGS,
    Checkpoint,
    LogName,
    Published,
    log_origin,
    sign_checkpoint,
    verifier_of,
)
from barograph.stances.continuity import Continuity
from barograph.stances.ledger import Ledger
from barograph.stances.merkle import (
    Frontier,
    NotADigest,
    Range,
    consistency_ranges,
    inclusion_ranges,
    peaks_root,
)
from barograph.stances.records import KINDS, DigestRow, EventDigestRow

BLOCK_LEVEL = 10
BLOCK = 1 << BLOCK_LEVEL

ReadDigests = Callable[[int, int], Awaitable[list[str]]]
"""The digests after a sequence number, at most so many."""


class RecordDamaged(BarographError):
    """What stands in the record cannot have been recorded."""


class HistoryRewritten(RecordDamaged):
    """The record is no longer the one that checkpoints were signed for."""


class Head(NamedTuple):
    """A tree by its size and root."""

    size: int
    root: bytes


class PublicLog:
    """One list of digests, followed as it grows."""

    def __init__(self, read: ReadDigests) -> None:
        self._read = read
        self._growing = asyncio.Lock()
        self._blocks: list[bytes] = []
        self._whole = Frontier()
        self._rest = Frontier()
        self._size = 0
        self._newest = ""

    async def head(self) -> Head:
        """The tree of all that is recorded now.

        Raises:
            DatabaseUnavailable: the record cannot be read.
            HistoryRewritten: its beginning is not what it was.
            RecordDamaged: what is new in it has no digest.
        """
        async with self._growing:
            await self._expect_no_change()
            while await self._grow():
                pass
            return Head(self._size, peaks_root([*self._whole.peaks, *self._rest.peaks]))

    async def root(self, size: int) -> bytes:
        """The root that the log had at an earlier size."""
        return await self._root(Range(0, size))

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
        wanted = BLOCK - self._size % BLOCK
        digests = await self._read(self._size, wanted)
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
        continuity: Continuity | None = None,
    ) -> None:
        """With `continuity` nothing is signed over another record than the one that was led."""
        self._key = key
        self._continuity = continuity
        self._base_url = base_url
        self._published: dict[tuple[str, LogName], Published] = {}
        self._logs: dict[tuple[str, LogName], PublicLog] = {}
        for kind in KINDS:
            self._logs[kind, "versions"] = PublicLog(_version_digests(ledger, kind))
            self._logs[kind, "events"] = PublicLog(_event_digests(ledger, kind))

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
            DatabaseUnavailable: the record cannot be read, or is not the one that was led.
            RecordDamaged: its beginning is not what it was, or what is new has no digest.
        """
        # What this worker signed is not all that was signed: others did, also before it began.
        if self._continuity is not None:
            for kind in KINDS:
                await self._continuity.require(kind)
        return [await self._checkpoint(kind, log) for kind in KINDS for log in LOGS]

    async def _checkpoint(self, kind: str, log: LogName) -> Published:
        origin = log_origin(self._base_url, kind, log)
        checkpoint = Checkpoint(origin, *await self._logs[kind, log].head())
        kept = self._published.get((kind, log))
        if kept is None or kept.checkpoint != checkpoint:
            note = sign_checkpoint(checkpoint, self._key)
            kept = Published(kind, log, checkpoint, note, verifier_of(self._key, origin))
            self._published[kind, log] = kept
        return kept


def _add(frontier: Frontier, digests: Sequence[str]) -> None:
    try:
        frontier.add_digests(digests)
    except NotADigest as error:
        raise RecordDamaged(f"a digest of the record is none: {error}") from error


def _version_digests(ledger: Ledger, kind: str) -> ReadDigests:
    async def read(after: int, limit: int) -> list[str]:
        rows: list[DigestRow] = await ledger.digests(kind, after, limit)
        return [row.history_digest for row in rows]

    return read


def _event_digests(ledger: Ledger, kind: str) -> ReadDigests:
    async def read(after: int, limit: int) -> list[str]:
        rows: list[EventDigestRow] = await ledger.event_digests(kind, after, limit)
        return [row.event_digest for row in rows]

    return read

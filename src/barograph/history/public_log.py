"""The published logs as Merkle trees, with their signed checkpoints.

A log keeps the root of every full block of digests, so a checkpoint reads only new digests and a
proof those of two blocks. It checks the hash chain as it grows, and never publishes a head that
contradicts a signed one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import (
    ALL_LOGS,
    EVENT_LOG,
    Checkpoint,
    Log,
    LogKeys,
    LogName,
    PublishedCheckpoint,
    log_origin,
    public_bytes,
    sign_checkpoint,
    verifier_of,
)
from barograph.history.digest import GENESIS
from barograph.history.event_log import event_digests, verified_digests
from barograph.history.guards import (
    OTHER_KEY,
    RESTORED,
    Continuity,
    SignedHead,
    SignedHeads,
    SigningRefused,
)
from barograph.history.merkle import (
    Frontier,
    NotADigest,
    Range,
    TreeHead,
    consistency_ranges,
    inclusion_ranges,
    is_consistent,
    leaf_hash,
    peaks_root,
)
from barograph.history.reader import ChainLink, HistoryReader, RecordDamaged
from barograph.history.records import KINDS, DigestRow
from barograph.history.tiles import TILE_LEVEL, TILE_WIDTH, Tile, entry_bundle
from barograph.kit.database import Database, DatabaseUnavailable

BLOCK = TILE_WIDTH
"""The digests of a block are one tile of the lowest level."""

PAGE = 128
"""Documents hashed at a time; other requests wait meanwhile."""

RETRY_SECONDS = 5.0

ReadDigests = Callable[[int, int], Awaitable[Sequence[DigestRow]]]
"""Takes a sequence and a limit; returns the digests after that sequence."""

ReadNew = Callable[[str, int, int], Awaitable[list[str]]]
"""Takes the last known digest too; returns digests that were verified against their documents."""


class HistoryRewritten(RecordDamaged):
    """The record contradicts a signed checkpoint."""


class PublicLog:
    """One list of digests as a tree that grows with it.

    Methods raise `DatabaseUnavailable` if the record cannot be read, `RecordDamaged` if a new
    digest does not continue the chain, and `HistoryRewritten` if the record contradicts a head.
    """

    def __init__(self, read: ReadDigests, read_new: ReadNew) -> None:
        self._read = read
        self._read_new = read_new
        self._growing = asyncio.Lock()
        self._blocks: list[bytes] = []
        self._full_blocks = Frontier()
        self._last_block = Frontier()
        self._last_digests: list[str] = []
        self._size = 0
        self._newest = GENESIS

    async def head(self) -> TreeHead:
        """The head of the tree over everything recorded now."""
        async with self._growing:
            await self._expect_no_change()
            while await self._grow():
                pass
            peaks = [*self._full_blocks.peaks, *self._last_block.peaks]
            return TreeHead(self._size, peaks_root(peaks))

    async def root(self, size: int, head: TreeHead) -> bytes:
        """The root that the log had at `size`, which is at most that of `head`."""
        return (await self.root_and_consistency(size, head))[0]

    async def root_and_consistency(self, size: int, head: TreeHead) -> tuple[bytes, list[bytes]]:
        """The root that the log had at `size`, and the proof that `head` begins with it."""
        root = await self._root(Range(0, size))
        proof = [await self._root(each) for each in consistency_ranges(size, head.size)]
        if not is_consistent(size, root, head.size, head.root, proof):
            raise HistoryRewritten(f"the first {size} digests do not match the head")
        return root, proof

    async def require_growth(self, signed: TreeHead, head: TreeHead) -> None:
        """Check that a head is no shorter than a signed one, and begins with its tree."""
        if signed.size > head.size or await self.root(signed.size, head) != signed.root:
            raise HistoryRewritten(
                f"the signed checkpoint of {signed.size} digests does not match the record"
            )

    async def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """The proof that a leaf is in the tree of `size`."""
        return [await self._root(each) for each in inclusion_ranges(index, size)]

    async def tile(self, tile: Tile) -> bytes:
        """The bytes of a tile or bundle that the tree has."""
        if not tile.level:
            digests = (await self._block(tile.number))[: tile.width]
            hashes = [leaf_hash(each) for each in digests]
            return entry_bundle(digests) if tile.level is None else b"".join(hashes)
        span = BLOCK << TILE_LEVEL * (tile.level - 1)
        starts = [(tile.number * TILE_WIDTH + each) * span for each in range(tile.width)]
        return b"".join([await self._root(Range(start, start + span)) for start in starts])

    async def digest(self, index: int) -> str:
        """The digest of one entry."""
        return (await self._block(index // BLOCK))[index % BLOCK]

    async def _block(self, number: int) -> list[str]:
        """The digests of a block, checked against the tree."""
        if number == len(self._blocks):
            return self._last_digests
        digests = [each.digest for each in await self._read(number * BLOCK, BLOCK)]
        frontier = Frontier()
        _add(frontier, digests)
        if peaks_root(frontier.peaks) != self._blocks[number]:
            raise HistoryRewritten(f"the digests after {number * BLOCK} were changed")
        return digests

    async def _expect_no_change(self) -> None:
        if self._size == 0:
            return
        found = await self._read(self._size - 1, 1)
        if [each.digest for each in found] != [self._newest]:
            raise HistoryRewritten(f"digest {self._size} contradicts a signed checkpoint")

    async def _grow(self) -> bool:
        """Add a page of digests to the current block; return whether there may be more."""
        wanted = min(PAGE, BLOCK - self._size % BLOCK)
        digests = await self._read_new(self._newest, self._size, wanted)
        if not digests:
            return False
        _add(self._last_block, digests)
        self._last_digests += digests
        self._size += len(digests)
        self._newest = digests[-1]
        if self._size % BLOCK == 0:
            block = peaks_root(self._last_block.peaks)
            self._blocks.append(block)
            self._full_blocks.add(block, TILE_LEVEL)
            self._last_block, self._last_digests = Frontier(), []
        return len(digests) == wanted

    async def _root(self, leaves: Range) -> bytes:
        """The root over a range of a proof; one longer than a block begins where a block does."""
        start, end = leaves
        frontier = Frontier()
        if end - start >= BLOCK:
            for block in self._blocks[start // BLOCK : end // BLOCK]:
                frontier.add(block, TILE_LEVEL)
            start = end // BLOCK * BLOCK
        if start < end:
            _add(frontier, [each.digest for each in await self._read(start, end - start)])
        return peaks_root(frontier.peaks)


class PublicLogs:
    """The logs of all kinds, with the key that signs their checkpoints.

    Methods raise `DatabaseUnavailable` if the record cannot be read or the signed head cannot be
    stored, `RecordDamaged` if the record contradicts its digests, a published end or a head, and
    `SigningRefused` after a restore or a change of the key.
    """

    def __init__(
        self,
        history: HistoryReader,
        key: Ed25519PrivateKey,
        base_url: str,
        signed: SignedHeads,
        continuity: Continuity,
        *,
        reload_key: Callable[[], Ed25519PrivateKey],
    ) -> None:
        self._key = key
        self._reload_key = reload_key
        self.keys = LogKeys()
        """The name and keys of the logs, as last read from the database."""

        self._signed = signed
        self._continuity = continuity
        self._base_url = base_url
        self._published: dict[Log, PublishedCheckpoint] = {}
        self._logs = {each: open_log(history, signed.database, each) for each in ALL_LOGS}

    def log(self, kind: str, log: LogName) -> PublicLog:
        """One log."""
        return self._logs[kind, log]

    @property
    def public_key(self) -> bytes:
        """The public half of the key, the same for all logs."""
        return public_bytes(self._key)

    def proof_url(self, kind: str, history_digest: str) -> str:
        """Where the proof of a version is."""
        scheme, _, _ = self._base_url.partition("://")
        return f"{scheme}://{self.origin(kind, 'versions')}/{history_digest}.tlog-proof"

    def origin(self, kind: str, log: LogName) -> str:
        """The name of a log."""
        return log_origin(self._base_url, kind, log, self.keys.name_of((kind, log)))

    async def checkpoint(self, kind: str, log: LogName) -> PublishedCheckpoint:
        """The newest checkpoint of a log."""
        return (await self._checkpoints([(kind, log)]))[0]

    def sign(self, checkpoint: Checkpoint) -> str:
        """Sign an earlier checkpoint again."""
        return sign_checkpoint(checkpoint, self._key)

    async def checkpoints(self) -> list[PublishedCheckpoint]:
        """The newest checkpoint of every log."""
        try:
            found = await self._checkpoints(ALL_LOGS)
        except DatabaseUnavailable as error:
            self._signed.signing_failed(error)
            raise
        self._signed.signing_worked()
        return found

    @property
    def is_probed(self) -> bool:
        """Whether this process has tried to sign; `last_signed` says nothing before that."""
        return self._signed.signed_at is not None or self._signed.failure is not None

    @property
    def last_signed(self) -> tuple[int, int] | None:
        """How many entries of stances are signed, and when this process confirmed them.

        None before the first time, and while no checkpoint can be signed.
        """
        at = self._signed.signed_at
        if at is None or self._signed.failure is not None:
            return None
        sizes = [each.checkpoint.size for each in self._published.values() if each.kind in KINDS]
        return sum(sizes), at

    async def probe(self) -> None:
        """Sign now, so that `/api/status` does not depend on requests."""
        with suppress(DatabaseUnavailable):
            await self.checkpoints()

    async def retry(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Sign again soon after a failure: the next probe can be a minute away."""
        while True:
            await sleep(RETRY_SECONDS)
            if self._signed.failure is not None:
                await self.probe()

    async def head(self, kind: str, log: LogName) -> TreeHead:
        """The newest head of a log, stored as signed before it is published."""
        return (await self._newest(kind, log)).head

    async def _checkpoints(self, logs: Sequence[Log]) -> list[PublishedCheckpoint]:
        """The newest checkpoints of logs, all signed by our key."""
        while True:
            newest = [await self._newest(*log) for log in logs]
            # The key may have changed in between, or another coroutine may have loaded a new one.
            if all(each.keys == self.keys for each in newest):
                pairs = zip(logs, newest, strict=True)
                return [self._checkpoint(*log, each.head) for log, each in pairs]

    async def _newest(self, kind: str, log: LogName) -> SignedHead:
        tree = self._logs[kind, log]
        await self._continuity.require(kind)
        while True:
            # Read this before the head: another worker may sign a longer one meanwhile.
            last = await self._signed.last_signed(kind, log)
            if not await self._may_sign(last.keys):
                continue
            head = await tree.head()
            if head == last.head and last.is_stored:
                return last
            await tree.require_growth(last.head, head)
            if await self._signed.advance(kind, log, last, head):
                return SignedHead(last.keys, head)

    async def _may_sign(self, keys: LogKeys) -> bool:
        """Whether our key is the one that signs; False if the keys must be read again."""
        if keys.held_since is not None:
            self.keys = keys
            raise SigningRefused(RESTORED)
        if keys.public_key is None:
            await self._signed.adopt(self.public_key)
            return False
        # Both change together, so that no key signs under another key's log name.
        self._key, self.keys = self._key_of(keys), keys
        return True

    def _key_of(self, keys: LogKeys) -> Ed25519PrivateKey:
        """Our key, or the one that the operator has replaced it with."""
        if keys.public_key == self.public_key:
            return self._key
        with suppress(ConfigurationError):
            key = self._reload_key()
            if keys.public_key == public_bytes(key):
                return key
        raise SigningRefused(OTHER_KEY)

    def _checkpoint(self, kind: str, log: LogName, head: TreeHead) -> PublishedCheckpoint:
        name = self.origin(kind, log)
        signed = Checkpoint(name, *head), verifier_of(self._key, name)
        published = self._published.get((kind, log))
        if published is None or (published.checkpoint, published.verifier) != signed:
            note = sign_checkpoint(signed[0], self._key)
            published = PublishedCheckpoint(kind, log, signed[0], note, signed[1])
            self._published[kind, log] = published
        return published


def open_log(history: HistoryReader, service: Database, log: Log) -> PublicLog:
    """One log of the record, or the log of events in the service's database."""
    if log == EVENT_LOG:
        read_new = partial(verified_digests, service)
        return PublicLog(partial(event_digests, service), lambda _, *page: read_new(*page))

    async def read(newest: str, after: int, limit: int) -> list[str]:
        return chained_digests(newest, await history.chain_links(*log, after, limit))

    return PublicLog(partial(history.digests, *log), read)


def chained_digests(previous: str, links: Sequence[ChainLink]) -> list[str]:
    """The digests of links that continue a chain.

    Raises:
        RecordDamaged: a link does not name its predecessor.
    """
    for link in links:
        if link.previous_digest != previous:
            raise RecordDamaged(
                f"the chain is broken at {link.digest}: run `barograph stances verify`"
            )
        previous = link.digest
    return [link.digest for link in links]


def _add(frontier: Frontier, digests: Sequence[str]) -> None:
    try:
        frontier.add_digests(digests)
    except NotADigest as error:
        raise RecordDamaged(f"the record holds an invalid digest: {error}") from error

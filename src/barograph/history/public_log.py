"""The public log: every event as one Merkle tree, with its signed checkpoints.

An entry is the SHA-256 of an event's text. The tree keeps the root of every full block of entries,
so a checkpoint reads only new entries and a proof those of two blocks. It checks each text as it
grows, and never publishes a head that contradicts a signed one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.events.store import NEVER_REMOVED
from barograph.history.checkpoint import (
    Checkpoint,
    LogKeys,
    PublishedCheckpoint,
    log_origin,
    public_bytes,
    sign_checkpoint,
    verifier_of,
)
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
from barograph.history.reader import HistoryRewritten, RecordDamaged
from barograph.history.records import DigestRow, ListName
from barograph.history.tiles import TILE_LEVEL, TILE_WIDTH, Tile, entry_bundle
from barograph.kit.database import DatabaseUnavailable, Queryable, Row
from barograph.kit.json import digest
from barograph.kit.timestamps import iso_timestamp

BLOCK = TILE_WIDTH
"""The entries of a block are one tile of the lowest level."""

PAGE = 128
"""Texts hashed at a time; other requests wait meanwhile."""

RETRY_SECONDS = 5.0


async def event_digests(queryable: Queryable, after: int, limit: int) -> list[DigestRow]:
    """The digests of events after an id, in order."""
    return [DigestRow(*row) for row in await queryable.fetch(_DIGESTS, after, limit)]


class _Text(msgspec.Struct):
    """What is checked of a text."""

    type: str
    at: str
    kind: str = ""
    sequence: int = 0
    history_digest: str = ""
    event_digest: str = ""


class _Entry(NamedTuple):
    digest: str
    text: _Text | None
    """None if it was removed."""


async def _verified_entries(queryable: Queryable, after: int, limit: int) -> list[_Entry]:
    """The entries after an id, each verified against its text unless the text was removed.

    Raises:
        RecordDamaged: a text or its columns do not match, or an event or its text is missing.
    """
    rows = await queryable.fetch(_TEXTS, after, limit)
    return [_verified(row, number) for number, row in enumerate(rows, after + 1)]


def _verified(row: Row, expected: int) -> _Entry:
    number, recorded, body, removed, kind, at = row
    damaged = RecordDamaged(f"event {expected} was changed, or is missing")
    if number != expected or (not body and (not removed or kind in NEVER_REMOVED)):
        raise damaged
    if not body:
        return _Entry(recorded, None)
    try:
        # Readers use the columns, too, and see only them if the text is removed later.
        text = _TEXT.decode(body)
        is_same = (digest(body), text.type, text.at) == (recorded, kind, iso_timestamp(at))
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise damaged from error
    if not is_same:
        raise damaged
    return _Entry(recorded, text)


class LogTree:
    """The entries as a tree that grows with them.

    Methods raise `DatabaseUnavailable` if the events cannot be read, `RecordDamaged` if a new entry
    is not the digest of its text, and `HistoryRewritten` if the events contradict a head.
    """

    def __init__(self, database: Queryable) -> None:
        self._database = database
        self._growing = asyncio.Lock()
        self._blocks: list[bytes] = []
        self._full_blocks = Frontier()
        self._last_block = Frontier()
        self._last_digests: list[str] = []
        self._size = 0
        self._newest = ""
        self.recorded: dict[tuple[str, ListName], tuple[int, str]] = {}
        """The last version and the last withdrawal of each kind in the log: sequence and digest."""

    async def head(self) -> TreeHead:
        """The head of the tree over everything logged now."""
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
        proof = [await self._root(leaves) for leaves in consistency_ranges(size, head.size)]
        if not is_consistent(size, root, head.size, head.root, proof):
            raise HistoryRewritten(f"the first {size} entries do not match the head")
        return root, proof

    async def require_growth(self, signed: TreeHead, head: TreeHead) -> None:
        """Check that a head is no shorter than a signed one, and begins with its tree."""
        if signed.size > head.size or await self.root(signed.size, head) != signed.root:
            raise HistoryRewritten(
                f"the signed checkpoint of {signed.size} entries does not match the events"
            )

    async def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """The proof that a leaf is in the tree of `size`."""
        return [await self._root(leaves) for leaves in inclusion_ranges(index, size)]

    async def tile(self, tile: Tile) -> bytes:
        """The bytes of a tile or bundle that the tree has."""
        if not tile.level:
            digests = (await self._block(tile.number))[: tile.width]
            hashes = [leaf_hash(entry) for entry in digests]
            return entry_bundle(digests) if tile.level is None else b"".join(hashes)
        span = BLOCK << TILE_LEVEL * (tile.level - 1)
        starts = [(tile.number * TILE_WIDTH + place) * span for place in range(tile.width)]
        return b"".join([await self._root(Range(start, start + span)) for start in starts])

    async def _block(self, number: int) -> list[str]:
        """The digests of a block, checked against the tree."""
        if number == len(self._blocks):
            return self._last_digests
        digests = await self._read(number * BLOCK, BLOCK)
        frontier = Frontier()
        _add(frontier, digests)
        if peaks_root(frontier.peaks) != self._blocks[number]:
            raise HistoryRewritten(f"the entries after {number * BLOCK} were changed")
        return digests

    async def _expect_no_change(self) -> None:
        if self._size and await self._read(self._size - 1, 1) != [self._newest]:
            raise HistoryRewritten(f"entry {self._size} contradicts a signed checkpoint")

    async def _grow(self) -> bool:
        """Add a page of entries to the current block; return whether there may be more."""
        wanted = min(PAGE, BLOCK - self._size % BLOCK)
        entries = await _verified_entries(self._database, self._size, wanted)
        digests = [entry.digest for entry in entries]
        if not digests:
            return False
        for text in (entry.text for entry in entries):
            if text is not None and text.sequence and text.type in _LISTS:
                place = text.sequence, text.history_digest or text.event_digest
                self.recorded[text.kind, _LISTS[text.type]] = place
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
            _add(frontier, await self._read(start, end - start))
        return peaks_root(frontier.peaks)

    async def _read(self, after: int, limit: int) -> list[str]:
        return [row.digest for row in await event_digests(self._database, after, limit)]


class PublicLog:
    """The log, and the key that signs its checkpoints.

    Methods raise `DatabaseUnavailable` if a database cannot be read or the signed head cannot be
    stored, `RecordDamaged` if the events or the recorded stances contradict their digests, a
    published end or a head, and `SigningRefused` after a restore or a change of the key.
    """

    def __init__(
        self,
        key: Ed25519PrivateKey,
        base_url: str,
        signed: SignedHeads,
        continuity: Continuity,
        *,
        reload_key: Callable[[], Ed25519PrivateKey],
    ) -> None:
        self.database = signed.database
        """Where the events are."""

        self.tree = LogTree(signed.database)
        self._key = key
        self._reload_key = reload_key
        self.keys = LogKeys()
        """The name and keys of the log, as last read from the database."""

        self._signed = signed
        self._continuity = continuity
        self._base_url = base_url
        self._published: PublishedCheckpoint | None = None

    @property
    def public_key(self) -> bytes:
        """The public half of the key."""
        return public_bytes(self._key)

    @property
    def origin(self) -> str:
        """The name of the log."""
        return log_origin(self._base_url, self.keys.name)

    def proof_url(self, history_digest: str) -> str:
        """Where the proof of a version is."""
        scheme, _, _ = self._base_url.partition("://")
        return f"{scheme}://{self.origin}/{history_digest}.tlog-proof"

    def sign(self, checkpoint: Checkpoint) -> str:
        """Sign an earlier checkpoint again."""
        return sign_checkpoint(checkpoint, self._key)

    async def checkpoint(self) -> PublishedCheckpoint:
        """The newest checkpoint."""
        try:
            newest = await self._newest()
            while newest.keys != self.keys:  # another coroutine has loaded a new key meanwhile
                newest = await self._newest()
        except DatabaseUnavailable as error:
            self._signed.signing_failed(error)
            raise
        self._signed.signing_worked()
        signed = Checkpoint(self.origin, *newest.head), verifier_of(self._key, self.origin)
        published = self._published
        if published is None or (published.checkpoint, published.verifier) != signed:
            note = sign_checkpoint(signed[0], self._key)
            published = self._published = PublishedCheckpoint(signed[0], note, signed[1])
        return published

    async def head(self) -> TreeHead:
        """The newest head, stored as signed before it is published."""
        return (await self._newest()).head

    @property
    def is_probed(self) -> bool:
        """Whether this process has tried to sign; `last_signed` says nothing before that."""
        return self._signed.signed_at is not None or self._signed.failure is not None

    @property
    def last_signed(self) -> tuple[int, int] | None:
        """How many entries are signed, and when this process confirmed them.

        None before the first time, and while no checkpoint can be signed.
        """
        at = self._signed.signed_at
        if at is None or self._published is None or self._signed.failure is not None:
            return None
        return self._published.checkpoint.size, at

    async def probe(self) -> None:
        """Sign now, so that `/api/status` does not depend on requests."""
        with suppress(DatabaseUnavailable):
            await self.checkpoint()

    async def retry(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Sign again soon after a failure: the next probe can be a minute away."""
        while True:
            await sleep(RETRY_SECONDS)
            if self._signed.failure is not None:
                await self.probe()

    async def _newest(self) -> SignedHead:
        await self._continuity.require_chains()
        while True:
            # Read this before the head: another worker may sign a longer one meanwhile.
            last = await self._signed.last_signed()
            if not await self._may_sign(last.keys):
                continue
            head = await self.tree.head()
            await self._continuity.require_logged(self.tree.recorded)
            if head == last.head and last.is_stored:
                return last
            await self.tree.require_growth(last.head, head)
            if await self._signed.advance(last, head):
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


def _add(frontier: Frontier, digests: Sequence[str]) -> None:
    try:
        frontier.add_digests(digests)
    except NotADigest as error:
        raise RecordDamaged(f"the log holds an invalid digest: {error}") from error


_LISTS: dict[str, ListName] = {"stance.recorded": "versions", "stance.withdrawn": "events"}
_TEXT = msgspec.json.Decoder(_Text)
_DIGESTS = "SELECT id, digest, at FROM events WHERE id > $1 ORDER BY id LIMIT $2"
_TEXTS = """
SELECT id, digest, body, removed, type, at FROM events WHERE id > $1 ORDER BY id LIMIT $2
"""

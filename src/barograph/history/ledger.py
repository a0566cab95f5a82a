"""Appends to the record of stances: one append-only hash chain per kind.

The newest version is the last one recorded, whatever its time of issue. Every process reads the
head of the chain and appends to it in one transaction, so the same content is recorded once.
"""

import secrets
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from barograph.errors import BarographError, LeaseLost
from barograph.history.digest import (
    GENESIS,
    event_document,
    leg_document,
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.reader import (
    DAMAGED,
    NEWEST_VERSIONS,
    HistoryReader,
    RecordDamaged,
    event_from,
    version_from,
)
from barograph.history.records import KINDS, WITHDRAWN, Proposal, Version, VersionEvent
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction, Work
from barograph.kit.json import canonical

T = TypeVar("T")

HISTORY = "history"
"""The folder of the record's migrations, and the name of its fence."""

SALT_BYTES = 32

VERSION_COLUMNS = (
    "kind",
    "sequence",
    "leg_id",
    "revision",
    "issued_at",
    "previous_digest",
    "history_digest",
)
EVENT_COLUMNS = ("kind", "sequence", "at", "version_sequence", "previous_digest", "event_digest")
"""The columns beside the document; each repeats a member of the record."""

version_columns = attrgetter(*VERSION_COLUMNS)
event_columns = attrgetter(*EVENT_COLUMNS)


class StaleLeg(BarographError):
    """A later leg is recorded already; older legs are never revised."""


class HeadMoved(BarographError):
    """Another version was recorded since the caller read the head; nothing was appended."""


class Appended(NamedTuple):
    """The version that holds the proposed content, and whether this call recorded it."""

    version: Version
    is_new: bool


def new_salt() -> str:
    """32 random bytes as hex."""
    return secrets.token_hex(SALT_BYTES)


class Ledger(HistoryReader):
    """Appends versions and events; reads as a `HistoryReader`."""

    def __init__(
        self, database: Database, clock: Clock, *, salt: Callable[[], str] = new_salt
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self._salt = salt

    async def append(
        self,
        proposal: Proposal,
        *,
        token: int | None = None,
        expected_head: str | None = None,
        only_new_evidence: bool = False,
    ) -> Appended:
        """Record a proposal, unless its content is recorded already.

        The collector passes its lease `token` and `only_new_evidence`, which keeps an operator's
        decision on the same evidence. An operator passes `expected_head`, the digest of the
        version that they decided on.

        Raises:
            LeaseLost: another collector leads now.
            HeadMoved: the newest version is not the expected one.
            StaleLeg: a later leg is recorded, and this leg has other content.
            ValueError: the kind is unknown, or the content has no canonical JSON.
            DatabaseUnavailable: nothing was recorded.
        """
        if proposal.kind not in KINDS:
            raise ValueError(f"unknown kind: one of {', '.join(KINDS)}")

        async def work(tx: Transaction) -> Appended:
            if token is not None:
                await _check_fence(tx, token)
            head = await _head(tx, proposal.kind)
            _check_head(head, expected_head)
            if only_new_evidence and head is not None and _has_evidence_of(head, proposal):
                return Appended(head, is_new=False)
            same_leg = await _newest_of_leg(tx, proposal, head)
            if same_leg is not None and _has_content_of(same_leg, proposal):
                return Appended(same_leg, is_new=False)
            if same_leg is not None and same_leg is not head:
                raise StaleLeg(f"a later leg than {proposal.leg_id} is recorded already")
            revision = 1 if same_leg is None else same_leg.revision + 1
            return Appended(await self._insert_version(tx, proposal, head, revision), is_new=True)

        return await self._write(work)

    async def withdraw(self, kind: str, *, why: str, by: str, expected_head: str) -> VersionEvent:
        """Record that the newest version is withdrawn; a second call returns the first event.

        Raises:
            HeadMoved: the newest version is not the expected one.
            DatabaseUnavailable: nothing was recorded.
        """

        async def work(tx: Transaction) -> VersionEvent:
            head = await _head(tx, kind)
            _check_head(head, expected_head)
            assert head is not None
            last = await _last_event(tx, kind)
            if last is not None and last.version_sequence == head.sequence:
                return last
            salt = self._salt()
            event = VersionEvent(
                kind=kind,
                sequence=1 if last is None else last.sequence + 1,
                type=WITHDRAWN,
                at=self._clock(),
                version_sequence=head.sequence,
                why=why,
                by=by,
                evidence_digest=withdrawal_digest(head.history_digest, why=why, by=by, salt=salt),
                previous_digest=GENESIS if last is None else last.event_digest,
                salt=salt,
                event_digest="",
            )
            return await _insert_event(tx, event)

        return await self._write(work)

    async def announce_leader(self, token: int) -> None:
        """Refuse appends with a lower token from now on.

        Raises:
            LeaseLost: a later leader has announced itself already.
        """
        await self._write(lambda tx: _check_fence(tx, token))

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self.database.write(work)
        except UnicodeDecodeError as error:
            raise RecordDamaged(DAMAGED) from error

    async def _insert_version(
        self, tx: Transaction, proposal: Proposal, head: Version | None, revision: int
    ) -> Version:
        version = Version(
            kind=proposal.kind,
            sequence=1 if head is None else head.sequence + 1,
            leg_id=proposal.leg_id,
            revision=revision,
            issued_at=proposal.issued_at,
            expires_at=proposal.expires_at,
            leg=proposal.leg,
            previous_digest=GENESIS if head is None else head.history_digest,
            salt=self._salt(),
            history_digest="",
        )
        text = canonical(version_document(version))
        # The caller gets what a later reader will get.
        recorded = read_version(text)
        await tx.execute(_INSERT_VERSION, *version_columns(recorded), text)
        return recorded


def _check_head(head: Version | None, expected: str | None) -> None:
    if expected is not None and (head is None or head.history_digest != expected):
        raise HeadMoved("another version was recorded meanwhile: read it and decide again")


def _has_evidence_of(head: Version, proposal: Proposal) -> bool:
    same_leg = head.leg_id == proposal.leg_id
    return same_leg and head.leg.evidence.digest == proposal.leg.evidence.digest


def _has_content_of(version: Version, proposal: Proposal) -> bool:
    if not _has_evidence_of(version, proposal):  # its digests are known already
        return False
    return canonical(leg_document(version.leg)) == canonical(leg_document(proposal.leg))


async def _check_fence(tx: Transaction, token: int) -> None:
    rows = await tx.fetch(_FENCE, HISTORY)
    highest = rows[0][0] if rows else 0
    if token < highest:
        raise LeaseLost("another collector records stances now")
    if token > highest:
        await tx.execute(_RAISE_FENCE, HISTORY, token)


async def _head(tx: Transaction, kind: str) -> Version | None:
    rows = await tx.fetch(NEWEST_VERSIONS, kind, 1)
    return version_from(rows[0]) if rows else None


async def _newest_of_leg(
    tx: Transaction, proposal: Proposal, head: Version | None
) -> Version | None:
    if head is None or head.leg_id == proposal.leg_id:
        return head
    rows = await tx.fetch(_NEWEST_OF_LEG, proposal.kind, proposal.leg_id)
    return version_from(rows[0]) if rows else None


async def _last_event(tx: Transaction, kind: str) -> VersionEvent | None:
    rows = await tx.fetch(_LAST_EVENT, kind)
    return event_from(rows[0]) if rows else None


async def _insert_event(tx: Transaction, event: VersionEvent) -> VersionEvent:
    text = canonical(event_document(event))
    recorded = read_event(text)
    await tx.execute(_INSERT_EVENT, *event_columns(recorded), text)
    return recorded


_NEWEST_OF_LEG = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1 AND leg_id = $2
ORDER BY revision DESC LIMIT 1
"""
_LAST_EVENT = """
SELECT document, event_digest FROM stance_events WHERE kind = $1
ORDER BY sequence DESC LIMIT 1
"""
_INSERT_VERSION = f"""
INSERT INTO stance_versions (position, {", ".join(VERSION_COLUMNS)}, document)
SELECT coalesce(max(position), 0) + 1, $1, $2, $3, $4, $5, $6, $7, $8 FROM stance_versions
"""  # noqa: S608 - the names of our own columns
_INSERT_EVENT = f"""
INSERT INTO stance_events (position, {", ".join(EVENT_COLUMNS)}, document)
SELECT coalesce(max(position), 0) + 1, $1, $2, $3, $4, $5, $6, $7 FROM stance_events
"""  # noqa: S608
_FENCE = "SELECT token FROM fences WHERE name = $1"
_RAISE_FENCE = """
INSERT INTO fences (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token
"""

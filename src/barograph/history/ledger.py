"""The record of stances: one append-only chain a kind.

Which version is the newest goes by the order of recording, never by time. Whoever appends, in
whichever process, reads the chain's head and adds to it in one transaction, so the same content
is recorded once and other content comes one after the other.
"""

import secrets
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec

from barograph.errors import BarographError, LeaseLost
from barograph.history.checkpoint import LogName
from barograph.history.digest import (
    GENESIS,
    event_document,
    leg_document,
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.records import (
    KINDS,
    WITHDRAWN,
    DigestRow,
    Event,
    EventDigestRow,
    Proposal,
    Version,
)
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value, Work
from barograph.kit.json import canonical, digest

T = TypeVar("T")

HISTORY = "history"
"""The folder of the record's own migrations."""

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
"""What the tables hold beside the documents; each column says what a member of the record says."""

version_columns = attrgetter(*VERSION_COLUMNS)
event_columns = attrgetter(*EVENT_COLUMNS)


class StaleLeg(BarographError):
    """A later leg is recorded already: an older one is never revised."""


class HeadMoved(BarographError):
    """Something was recorded since the caller looked; nothing of its own was."""


class RecordDamaged(DatabaseUnavailable):
    """What the database holds is not what was recorded: it cannot be relied on."""


class Link(msgspec.Struct, frozen=True):
    """The digest of a recorded text, and the digest that it names as its predecessor."""

    previous_digest: str
    digest: str = ""


class Appended(NamedTuple):
    """The version that holds the proposed content, and whether this call recorded it."""

    version: Version
    is_new: bool


def new_salt() -> str:
    """32 random bytes as hex."""
    return secrets.token_hex(SALT_BYTES)


class Ledger:
    """Appends to the chains and reads them."""

    def __init__(
        self, database: Database, clock: Clock, *, salt: Callable[[], str] = new_salt
    ) -> None:
        self._database = database
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
        """Record a proposal, unless its content is what is recorded already.

        The collector shows its lease `token`; it passes `only_new_evidence`, by which a decision
        that a person made on the same evidence stands. A person passes the `expected_head`: the
        digest of the version that was looked at.

        Raises:
            LeaseLost: a later leader has announced itself.
            HeadMoved: the newest version is not the expected one.
            StaleLeg: the leg is not the newest one, and has other content than proposed.
            ValueError: the kind is unknown, or the content cannot be written as canonical JSON.
            DatabaseUnavailable: nothing was recorded.
        """
        if proposal.kind not in KINDS:
            raise ValueError(f"unknown kind: one of {', '.join(KINDS)}")
        content = canonical(leg_document(proposal.leg))

        async def work(tx: Transaction) -> Appended:
            if token is not None:
                await _pass_fence(tx, token)
            head = await _head(tx, proposal.kind)
            _expect(head, expected_head)
            if only_new_evidence and _has_evidence_of(head, proposal):
                assert head is not None
                return Appended(head, is_new=False)
            same_leg = await _newest_of_leg(tx, proposal, head)
            if same_leg is not None and canonical(leg_document(same_leg.leg)) == content:
                return Appended(same_leg, is_new=False)
            if same_leg is not None and same_leg is not head:
                raise StaleLeg(f"a later leg than {proposal.leg_id} is recorded already")
            version = self._next(proposal, head, 1 if same_leg is None else same_leg.revision + 1)
            return Appended(await _insert_version(tx, version), is_new=True)

        return await self._write(work)

    async def withdraw(self, kind: str, *, why: str, by: str, expected_head: str) -> Event:
        """Record that the newest version no longer stands; once is enough.

        Raises:
            HeadMoved: the newest version is not the expected one.
            DatabaseUnavailable: nothing was recorded.
        """

        async def work(tx: Transaction) -> Event:
            head = await _head(tx, kind)
            _expect(head, expected_head)
            assert head is not None
            last = await _last_event(tx, kind)
            if last is not None and last.version_sequence == head.sequence:
                return last
            salt = self._salt()
            event = Event(
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

    async def take(self, token: int) -> None:
        """Announce a new leader: from now on nobody appends with a lower token.

        Raises:
            LeaseLost: a later leader has announced itself already.
        """

        async def work(tx: Transaction) -> None:
            await _pass_fence(tx, token)

        await self._write(work)

    async def newest(self, kind: str, count: int = 2) -> list[Version]:
        """The newest versions, newest first."""
        return [_version(row) for row in await self._fetch(_NEWEST, kind, count)]

    async def by_sequence(self, kind: str, sequence: int) -> Version | None:
        """One version by its place in the chain."""
        rows = await self._fetch(_BY_SEQUENCE, kind, sequence)
        return _version(rows[0]) if rows else None

    async def count(self, kind: str) -> int:
        """How many versions are recorded."""
        rows = await self._fetch(_LAST_VERSION, kind)
        return int(rows[0][0])

    async def count_events(self, kind: str) -> int:
        """How many events are recorded."""
        rows = await self._fetch(_LAST_EVENT_SEQUENCE, kind)
        return int(rows[0][0])

    async def digests(self, kind: str, after: int, limit: int) -> list[DigestRow]:
        """The digests of the versions after a place in the chain, in order."""
        return [DigestRow(*row) for row in await self._fetch(_DIGESTS, kind, after, limit)]

    async def event_digests(self, kind: str, after: int, limit: int) -> list[EventDigestRow]:
        """The digests of the events after a place in their chain, in order."""
        return [
            EventDigestRow(*row) for row in await self._fetch(_EVENT_DIGESTS, kind, after, limit)
        ]

    async def log_digests(self, kind: str, log: LogName, after: int, limit: int) -> list[str]:
        """The digests after a place in either chain, in order."""
        read = _DIGESTS if log == "versions" else _EVENT_DIGESTS
        return [row[1] for row in await self._fetch(read, kind, after, limit)]

    async def links(self, kind: str, log: LogName, after: int, limit: int) -> list[Link]:
        """The same digests, each checked against its text, with the predecessor that it names.

        Raises:
            RecordDamaged: a text is not the one that its digest was made of.
        """
        return [_link(row) for row in await self._fetch(_LINKS[log], kind, after, limit)]

    async def events(self, kind: str) -> list[Event]:
        """Every event of a kind, in order."""
        return [_event(row) for row in await self._fetch(_EVENTS, kind)]

    async def _fetch(self, sql: str, *values: Value) -> list[Row]:
        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(sql, *values)

        try:
            return await self._database.read(work)
        except UnicodeDecodeError as error:
            raise RecordDamaged(DAMAGED) from error

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except UnicodeDecodeError as error:
            raise RecordDamaged(DAMAGED) from error

    def _next(self, proposal: Proposal, head: Version | None, revision: int) -> Version:
        return Version(
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


def _expect(head: Version | None, expected: str | None) -> None:
    if expected is not None and (head is None or head.history_digest != expected):
        raise HeadMoved("another version has been recorded since: look at it and decide again")


def _has_evidence_of(head: Version | None, proposal: Proposal) -> bool:
    return (
        head is not None
        and head.leg_id == proposal.leg_id
        and head.leg.evidence.digest == proposal.leg.evidence.digest
    )


async def _pass_fence(tx: Transaction, token: int) -> None:
    rows = await tx.fetch(_FENCE, HISTORY)
    highest = rows[0][0] if rows else 0
    if token < highest:
        raise LeaseLost("a later leader records stances now")
    if token > highest:
        await tx.execute(_RAISE_FENCE, HISTORY, token)


async def _head(tx: Transaction, kind: str) -> Version | None:
    rows = await tx.fetch(_NEWEST, kind, 1)
    return _version(rows[0]) if rows else None


async def _newest_of_leg(
    tx: Transaction, proposal: Proposal, head: Version | None
) -> Version | None:
    if head is None or head.leg_id == proposal.leg_id:
        return head
    rows = await tx.fetch(_NEWEST_OF_LEG, proposal.kind, proposal.leg_id)
    return _version(rows[0]) if rows else None


async def _last_event(tx: Transaction, kind: str) -> Event | None:
    rows = await tx.fetch(_LAST_EVENT, kind)
    return _event(rows[0]) if rows else None


def _link(row: Row) -> Link:
    try:
        said = _LINK.decode(_undamaged(row))
    except msgspec.DecodeError as error:
        raise RecordDamaged(DAMAGED) from error
    return Link(said.previous_digest, row[1])


def _version(row: Row) -> Version:
    return _read(read_version, row)


def _event(row: Row) -> Event:
    return _read(read_event, row)


def _read(read: Callable[[str, str], T], row: Row) -> T:
    try:
        return read(_undamaged(row), row[1])
    except ValueError as error:  # what was recorded is not of a schema that is known here
        raise RecordDamaged(DAMAGED) from error


def _undamaged(row: Row) -> str:
    text, recorded_digest = row
    if not isinstance(text, str) or digest(text) != recorded_digest:
        raise RecordDamaged(DAMAGED)
    return text


async def _insert_version(tx: Transaction, version: Version) -> Version:
    text = canonical(version_document(version))
    recorded = read_version(text)
    await tx.execute(_INSERT_VERSION, *version_columns(recorded), text)
    # What the caller gets is what any later reader gets.
    return recorded


async def _insert_event(tx: Transaction, event: Event) -> Event:
    text = canonical(event_document(event))
    recorded = read_event(text)
    await tx.execute(_INSERT_EVENT, *event_columns(recorded), text)
    return recorded


DAMAGED = "a recorded text is damaged: barograph stances verify names it"

_NEWEST = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1
ORDER BY sequence DESC LIMIT $2
"""
_BY_SEQUENCE = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1 AND sequence = $2
"""
_NEWEST_OF_LEG = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1 AND leg_id = $2
ORDER BY revision DESC LIMIT 1
"""
_LAST_VERSION = "SELECT coalesce(max(sequence), 0) FROM stance_versions WHERE kind = $1"
_LAST_EVENT_SEQUENCE = "SELECT coalesce(max(sequence), 0) FROM stance_events WHERE kind = $1"
_DIGESTS = """
SELECT sequence, history_digest, issued_at FROM stance_versions
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
"""
_EVENT_DIGESTS = """
SELECT sequence, event_digest, at FROM stance_events
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
"""
_LINKS: dict[LogName, str] = {
    "versions": _DIGESTS.replace("sequence, history_digest, issued_at", "document, history_digest"),
    "events": _EVENT_DIGESTS.replace("sequence, event_digest, at", "document, event_digest"),
}
_LINK = msgspec.json.Decoder(Link)
_EVENTS = "SELECT document, event_digest FROM stance_events WHERE kind = $1 ORDER BY sequence"
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

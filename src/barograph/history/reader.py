"""Every read of the record of stances.

A recorded document is the text that was hashed. Reads compare it with its digest before use.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from barograph.history.digest import read_event, read_version
from barograph.history.records import DigestRow, ListName, Version, VersionEvent
from barograph.kit.database import Database, DatabaseUnavailable, Row, Value
from barograph.kit.json import digest

T = TypeVar("T")

NEWEST = 2**63 - 1
DAMAGED = "a recorded document is damaged: run `barograph stances verify` to see which"

MAX_VERIFIED = 16
_VERIFIED: dict[str, str] = {}
"""Documents by their verified digest. Every request reads the same few, and comparing two texts
is faster than hashing one."""


class RecordDamaged(DatabaseUnavailable):
    """The database does not hold what was recorded."""


class HistoryRewritten(RecordDamaged):
    """The record contradicts what this process has read, or a signed checkpoint."""


class ChainLink(msgspec.Struct, frozen=True):
    """The digest of a document, and the digest that it names as its predecessor."""

    previous_digest: str
    digest: str = ""


class StoredVersion(NamedTuple):
    """A recorded version with its document, which may have any schema."""

    sequence: int
    leg_id: str
    revision: int
    issued_at: int
    history_digest: str
    document: str

    def is_expired(self, now: int) -> bool:
        """Whether it has expired; a document without an expiry has not."""
        try:
            expires_at = _EXPIRY.decode(self.document).expires_at
        except msgspec.MsgspecError:
            return False
        return expires_at is not None and now >= expires_at.timestamp() * 1000


class NewestDocuments(NamedTuple):
    """The newest versions of a kind."""

    versions: tuple[StoredVersion, ...]
    """Newest first."""

    withdrawal: VersionEvent | None
    """The event that withdrew the newest version."""


class HistoryReader:
    """Reads the chains of versions and events.

    Every method raises `DatabaseUnavailable` when the record cannot be read, and its subclass
    `RecordDamaged` when a document does not match its digest.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    async def newest_versions(self, kind: str, count: int = 2) -> list[Version]:
        """The newest versions, decoded, newest first."""
        return [version_from(row) for row in await self._fetch(NEWEST_VERSIONS, kind, count)]

    async def newest_documents(
        self, kind: str, count: int = 2, *, up_to: int = NEWEST
    ) -> NewestDocuments:
        """The newest versions up to a sequence, not decoded, and whether the newest is withdrawn.

        One statement reads both, so that they belong together.
        """
        rows = await self._fetch(_NEWEST_DOCUMENTS, kind, count, up_to)
        versions = tuple(StoredVersion._make(row[:-2]) for row in rows)
        for version in versions:
            _require_verified(version.document, version.history_digest)
        return NewestDocuments(versions, _withdrawal(*rows[0][-2:]) if rows else None)

    async def version_at(self, kind: str, sequence: int) -> Version | None:
        """One version by its sequence."""
        rows = await self._fetch(_VERSION_AT, kind, sequence)
        return version_from(rows[0]) if rows else None

    async def versions_issued(
        self, kind: str, spans: Sequence[tuple[int, int]], after: int, limit: int
    ) -> list[Version]:
        """The versions after a sequence whose time of issue is in a span, in order."""
        if not spans:
            return []
        places = range(4, 4 + 2 * len(spans), 2)
        wanted = " OR ".join(f"issued_at >= ${at} AND issued_at < ${at + 1}" for at in places)
        times = [time for span in spans for time in span]
        rows = await self._fetch(_ISSUED.format(wanted), kind, after, limit, *times)
        return [version_from(row) for row in rows]

    async def count_issued(self, kind: str, start: int, end: int) -> int:
        """How many versions were issued from `start` until before `end`."""
        return int((await self._fetch(_COUNT_ISSUED, kind, start, end))[0][0])

    async def version_with(self, history_digest: str) -> Version | None:
        """The version with a digest; None if there is none."""
        rows = await self._fetch(_WITH_DIGEST, history_digest)
        return version_from(rows[0]) if rows else None

    async def sequence_issued_by(self, kind: str, moment: int) -> int:
        """The sequence of the newest version issued by a moment; 1 if there is none."""
        return int((await self._fetch(_SEQUENCE_ISSUED_BY, kind, moment))[0][0])

    async def events(self, kind: str) -> list[VersionEvent]:
        """Every event of a kind, in order."""
        return [event_from(row) for row in await self._fetch(_EVENTS, kind)]

    async def count(self, kind: str, name: ListName) -> int:
        """How many versions or events are recorded."""
        return int((await self._fetch(_COUNT[name], kind))[0][0])

    async def digests(self, kind: str, name: ListName, after: int, limit: int) -> list[DigestRow]:
        """The digests of versions or events after a sequence, in order."""
        return [DigestRow(*row) for row in await self._fetch(_DIGESTS[name], kind, after, limit)]

    async def chain_links(
        self, kind: str, name: ListName, after: int, limit: int
    ) -> list[ChainLink]:
        """The same digests, each verified against its document, with its predecessor."""
        return [_link(row) for row in await self._fetch(_LINKS[name], kind, after, limit)]

    async def _fetch(self, sql: str, *values: Value) -> list[Row]:
        try:
            return await self.database.fetch(sql, *values)
        except UnicodeDecodeError as error:
            raise RecordDamaged(DAMAGED) from error


def version_from(row: Row) -> Version:
    """Decode a row of document and digest.

    Raises:
        RecordDamaged: they do not match, or the document has an unknown schema.
    """
    return _decode(read_version, row)


def event_from(row: Row) -> VersionEvent:
    """Decode a row of document and digest.

    Raises:
        RecordDamaged: they do not match, or the document has an unknown schema.
    """
    return _decode(read_event, row)


def _decode(read: Callable[[str, str], T], row: Row) -> T:
    try:
        return read(_document(*row), row[1])
    except ValueError as error:
        raise RecordDamaged(DAMAGED) from error


def _link(row: Row) -> ChainLink:
    try:
        return ChainLink(_LINK.decode(_document(*row)).previous_digest, row[1])
    except msgspec.DecodeError as error:
        raise RecordDamaged(DAMAGED) from error


def _withdrawal(text: str | None, recorded_digest: str | None) -> VersionEvent | None:
    if text is None or recorded_digest is None:
        return None
    _require_verified(text, recorded_digest)
    try:
        return read_event(text, recorded_digest)
    except ValueError as error:
        raise RecordDamaged(DAMAGED) from error


def _require_verified(text: object, recorded_digest: str) -> None:
    if isinstance(text, str) and _VERIFIED.get(recorded_digest) == text:
        return
    verified = _document(text, recorded_digest)
    if len(_VERIFIED) >= MAX_VERIFIED:
        _VERIFIED.clear()
    _VERIFIED[recorded_digest] = verified


def _document(text: object, recorded_digest: str) -> str:
    if not isinstance(text, str) or digest(text) != recorded_digest:
        raise RecordDamaged(DAMAGED)
    return text


class _Expiry(msgspec.Struct, frozen=True):
    expires_at: datetime | None = None


_EXPIRY = msgspec.json.Decoder(_Expiry)
_LINK = msgspec.json.Decoder(ChainLink)

NEWEST_VERSIONS = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1
ORDER BY sequence DESC LIMIT $2
"""
_NEWEST_DOCUMENTS = """
SELECT versions.sequence, leg_id, revision, issued_at, history_digest, versions.document,
    events.document, event_digest
FROM stance_versions AS versions LEFT JOIN stance_events AS events
    ON events.kind = $1 AND events.version_sequence = versions.sequence AND events.sequence = (
        SELECT sequence FROM stance_events WHERE kind = $1 AND version_sequence <= $3
        ORDER BY sequence DESC LIMIT 1
    )
WHERE versions.kind = $1 AND versions.sequence <= $3 ORDER BY versions.sequence DESC LIMIT $2
"""
_VERSION_AT = """
SELECT document, history_digest FROM stance_versions WHERE kind = $1 AND sequence = $2
"""
_ISSUED = """
SELECT document, history_digest FROM stance_versions
WHERE kind = $1 AND sequence > $2 AND ({}) ORDER BY sequence LIMIT $3
"""
_COUNT_ISSUED = """
SELECT count(*) FROM stance_versions WHERE kind = $1 AND issued_at >= $2 AND issued_at < $3
"""
_WITH_DIGEST = "SELECT document, history_digest FROM stance_versions WHERE history_digest = $1"
_SEQUENCE_ISSUED_BY = """
SELECT coalesce(max(sequence), 1) FROM stance_versions WHERE kind = $1 AND issued_at <= $2
"""
_EVENTS = "SELECT document, event_digest FROM stance_events WHERE kind = $1 ORDER BY sequence"
_COUNT: dict[ListName, str] = {
    "versions": "SELECT coalesce(max(sequence), 0) FROM stance_versions WHERE kind = $1",
    "events": "SELECT coalesce(max(sequence), 0) FROM stance_events WHERE kind = $1",
}
_DIGESTS: dict[ListName, str] = {
    "versions": """
SELECT sequence, history_digest, issued_at FROM stance_versions
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
""",
    "events": """
SELECT sequence, event_digest, at FROM stance_events
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
""",
}
_LINKS: dict[ListName, str] = {
    "versions": """
SELECT document, history_digest FROM stance_versions
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
""",
    "events": """
SELECT document, event_digest FROM stance_events
WHERE kind = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
""",
}

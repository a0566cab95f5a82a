"""Verifies the whole record: every digest, every link and every index entry.

It reads the tables in recording order, one page at a time, so memory does not grow with the
record. A truncated chain or another record in its place is intact in itself; only what was
published, or a kept checkpoint, shows it.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, NamedTuple

from barograph.history.digest import (
    GENESIS,
    event_document,
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.guards import (
    Continuity,
    RecordReplaced,
    SignedHeads,
    require_chain_end,
    wrong_guards,
)
from barograph.history.ledger import EVENT_COLUMNS, VERSION_COLUMNS, event_columns, version_columns
from barograph.history.public_log import LogTree
from barograph.history.reader import HistoryReader, RecordDamaged
from barograph.history.records import KINDS, WITHDRAWN, ChainEnd, Stances, Version, VersionEvent
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable, Row, Value
from barograph.kit.json import Json, canonical

PAGE = 500

Progress = Callable[[int, int], None]
"""Takes how many records were read, and how many there are."""

RecordName = Literal["version", "event"]

_Check = Callable[[Any, Any], Awaitable[None]]


class Counts(NamedTuple):
    """How many versions and events of a kind are recorded."""

    versions: int
    events: int


class IntactRecord(NamedTuple):
    """Everything in the record is as it was recorded."""

    counts: dict[str, Counts]
    logged: int | None = None
    """How many events the log of events has; None without a database of the service."""

    not_compared: str | None = None
    """Why the record could not be compared with what the service published."""


class BrokenRecord(NamedTuple):
    """The first damaged entry; without a kind, damage to the record as a whole."""

    kind: str | None
    sequence: int | None
    what: str
    record: RecordName | None = None
    """Which of the two chains the sequence belongs to."""


class _Table(NamedTuple):
    """One of the two tables, and how to check its rows."""

    name: str
    record: RecordName
    columns: tuple[str, ...]
    read: Callable[[str], Any]
    document: Callable[[Any], dict[str, Json]]
    column_values: Callable[[Any], tuple[Any, ...]]
    """What the columns beside the document must hold."""

    index_check: str
    """An expression that counts the row in the table's other indexes, which must be 1."""


class _Damage(Exception):
    def __init__(self, table: _Table, kind: str | None, sequence: int | None, what: str) -> None:
        self.broken = BrokenRecord(kind, sequence, what, None if kind is None else table.record)


_VERSIONS = _Table(
    "stance_versions",
    "version",
    VERSION_COLUMNS,
    read_version,
    version_document,
    version_columns,
    "(SELECT count(*) FROM stance_versions other WHERE other.kind = here.kind "
    "AND other.leg_id = here.leg_id AND other.revision = here.revision)",
)
_EVENTS = _Table(
    "stance_events", "event", EVENT_COLUMNS, read_event, event_document, event_columns, "1"
)


async def verify(
    database: Database, progress: Progress = lambda _done, _total: None, *, page: int = PAGE
) -> IntactRecord | BrokenRecord:
    """Verify the record up to its present end, `page` entries at a time.

    Raises:
        DatabaseUnavailable: the database cannot be read at all.
    """
    versions, events = (_TableCheck(database, table, page) for table in (_VERSIONS, _EVENTS))
    total = await versions.find_end() + await events.find_end()
    try:
        await versions.check_rows(_check_revision, lambda done: progress(done, total))
        await events.check_rows(
            lambda event, _last: _check_event(database, event),
            lambda done: progress(versions.end + done, total),
        )
        await versions.check_index()
        await events.check_index()
    except _Damage as damage:
        return damage.broken
    wrong = await wrong_guards(database)
    if wrong:
        what = f"triggers are missing, changed or added: {', '.join(wrong)}"
        return BrokenRecord(None, None, what)
    counts = {kind: Counts(versions.count(kind), events.count(kind)) for kind in versions.heads}
    return IntactRecord(counts)


async def verify_published(history: HistoryReader, published: Stances) -> BrokenRecord | None:
    """The first published end of a chain that the record does not hold."""
    for kind, end in sorted(published.recorded.items()):
        record: RecordName = "version"
        try:
            await require_chain_end(history, kind, ChainEnd(end.sequence, end.history_digest))
            record = "event"
            await require_chain_end(history, kind, end)
        except RecordReplaced:
            number = end.sequence if record == "version" else end.events
            return BrokenRecord(kind, number, f"it is not the {record} that was published", record)
    return None


async def verify_event_log(service: Database, history: Database) -> BrokenRecord | int:
    """Verify every event, and all of them against the last signed head; return their number."""
    # Read this before the events, which may grow meanwhile.
    signed = await SignedHeads(service, history, system_clock).last_signed()
    tree = LogTree(service)
    try:
        head = await tree.head()
        await tree.require_growth(signed.head, head)
        # Each digest covers the one before it, so the last of each kind stands for all.
        await Continuity(HistoryReader(history), lambda: None).require_logged(tree.recorded)
    except RecordDamaged as error:
        return BrokenRecord(None, None, f"the log of events: {error}")
    return head.size


class _TableCheck:
    """Checks one table, and remembers the newest record of each kind."""

    def __init__(self, database: Database, table: _Table, page: int) -> None:
        self._database = database
        self._table = table
        self._page_size = page
        self.heads: dict[str, Any] = {}
        self.end = 0

    def count(self, kind: str) -> int:
        return self.heads[kind].sequence if kind in self.heads else 0

    async def find_end(self) -> int:
        """The last position now; what is recorded later is not checked."""
        rows = await self._fetch(f"SELECT coalesce(max(position), 0) FROM {self._table.name}")  # noqa: S608
        self.end = rows[0][0]
        return self.end

    async def check_rows(self, check: _Check, progress: Callable[[int], None]) -> None:
        """Check each record by itself and against its predecessor."""
        position, limit = 0, self._page_size
        while position < self.end:
            try:
                rows = await self._page(position, limit)
            except (DatabaseUnavailable, UnicodeDecodeError) as error:
                if limit == 1:
                    raise await self._unreadable(position + 1, error) from error
                limit = 1  # continue row by row, up to the one that cannot be read
                continue
            if not rows:
                what = f"{self._table.name}: the newest records are missing"
                raise _Damage(self._table, None, None, what)
            for row in rows[: self.end - position]:
                position += 1
                record = _record(self._table, row, position)
                head = self.heads.get(record.kind)
                _check_link(self._table, record, head)
                await check(record, head)
                self.heads[record.kind] = record
            progress(position)

    async def check_index(self) -> None:
        """Find every record by the indexes that readers use."""
        for kind in self.heads:
            place, last_digest = 0, GENESIS
            while place < self.count(kind):
                for sequence, previous, own, found in await self._index_page(kind, place):
                    if (sequence, previous, found) != (place + 1, last_digest, 1):
                        what = "it is not found by its place or its leg"
                        raise _Damage(self._table, kind, place + 1, what)
                    place, last_digest = sequence, own

    async def _page(self, position: int, limit: int) -> list[Row]:
        columns = ", ".join(self._table.columns)
        return await self._fetch(
            f"SELECT position, {columns}, document FROM {self._table.name} "  # noqa: S608
            "WHERE position > $1 ORDER BY position LIMIT $2",
            position,
            limit,
        )

    async def _index_page(self, kind: str, place: int) -> list[Row]:
        table = self._table
        try:
            rows = await self._fetch(
                f"SELECT sequence, previous_digest, {table.columns[-1]}, {table.index_check} "  # noqa: S608
                f"FROM {table.name} here WHERE kind = $1 AND sequence > $2 "
                "ORDER BY sequence LIMIT $3",
                kind,
                place,
                self._page_size,
            )
        except (DatabaseUnavailable, UnicodeDecodeError) as error:
            what = f"its index cannot be read ({error})"
            raise _Damage(table, kind, place + 1, what) from error
        if not rows:
            raise _Damage(table, kind, place + 1, "it is not found by its place")
        return rows

    async def _unreadable(self, position: int, error: Exception) -> _Damage:
        """Name the record at a position by the index, if that can be read."""
        sql = f"SELECT position FROM {self._table.name} WHERE kind = $1 AND sequence = $2"  # noqa: S608
        for kind in KINDS:
            following = self.count(kind) + 1
            if await self._fetch(sql, kind, following) == [(position,)]:
                return _Damage(self._table, kind, following, f"it cannot be read ({error})")
        place = f"{self._table.record} {position} of all kinds"
        return _Damage(self._table, None, None, f"{place} cannot be read ({error})")

    async def _fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self._database.fetch(sql, *values)


def _record(table: _Table, row: Row, position: int) -> Any:  # noqa: ANN401 - either table's
    found, kind, sequence, *_, text = row
    try:
        record = table.read(text)
        rewritten = canonical(table.document(record))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _Damage(table, kind, sequence, "its text is not a record") from error
    differing = list(_differing_columns(table, row, record))
    if differing and differing[-1] == table.columns[-1]:
        raise _Damage(table, kind, sequence, "its text does not have its digest")
    if differing:
        what = f"columns differ: {', '.join(differing)}"
        raise _Damage(table, record.kind, record.sequence, what)
    if rewritten != text:
        what = "its text is not canonical, or its evidence has changed"
        raise _Damage(table, kind, sequence, what)
    if found != position:
        raise _Damage(table, kind, sequence, "a record before it is missing")
    return record


def _differing_columns(table: _Table, row: Row, record: Any) -> Iterator[str]:  # noqa: ANN401
    stored, expected = row[1:], table.column_values(record)
    for name, found, value in zip(table.columns, stored, expected, strict=False):
        if found != value:
            yield name


def _check_link(table: _Table, record: Any, head: Any | None) -> None:  # noqa: ANN401
    expected = 1 if head is None else head.sequence + 1
    if record.sequence != expected:
        raise _Damage(table, record.kind, expected, "it is missing")
    before = GENESIS if head is None else table.column_values(head)[-1]
    if record.previous_digest != before:
        raise _Damage(table, record.kind, record.sequence, "it does not follow the one before it")


async def _check_revision(version: Version, head: Version | None) -> None:
    same_leg = head is not None and head.leg_id == version.leg_id
    expected = head.revision + 1 if head is not None and same_leg else 1
    if version.revision != expected:
        what = f"its revision should be {expected}"
        raise _Damage(_VERSIONS, version.kind, version.sequence, what)


async def _check_event(database: Database, event: VersionEvent) -> None:
    version = event.kind, event.version_sequence
    rows = await database.fetch(_DIGEST_OF, *version)
    evidence = [
        withdrawal_digest(row[0], why=event.why, by=event.by, salt=event.salt) for row in rows
    ]
    if event.type != WITHDRAWN or evidence != [event.evidence_digest]:
        what = "the event is not about a recorded version"
        raise _Damage(_EVENTS, event.kind, event.sequence, what)


_DIGEST_OF = "SELECT history_digest FROM stance_versions WHERE kind = $1 AND sequence = $2"

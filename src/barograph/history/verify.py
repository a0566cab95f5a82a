"""The whole record read again: every digest, every link, every place.

It goes through the tables in the order of recording, a page at a time, so a million versions
need no more memory than a thousand; then through the indexes by which versions are found. What
it cannot notice alone is a chain whose end was cut off, or another record in its place: that
shows against what was published, and against a kept checkpoint.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from barograph.history.digest import (
    GENESIS,
    event_document,
    read_event,
    read_version,
    version_document,
    withdrawal_digest,
)
from barograph.history.guards import RecordReplaced, require_mark, wrong_guards
from barograph.history.ledger import (
    EVENT_COLUMNS,
    VERSION_COLUMNS,
    Ledger,
    event_columns,
    version_columns,
)
from barograph.history.records import KINDS, WITHDRAWN, Event, Mark, Stances, Version
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value
from barograph.kit.json import Json, canonical

PAGE = 500

Progress = Callable[[int, int], None]
"""Told how many records of how many have been read."""

RecordName = Literal["version", "event"]

_Check = Callable[[Any, Any], Awaitable[None]]


class Counts(NamedTuple):
    """How much of a kind is recorded."""

    versions: int
    events: int


class Verified(NamedTuple):
    """The record is whole."""

    counts: dict[str, Counts]


class Broken(NamedTuple):
    """The first record that is not as it was made; without a kind, the record as a whole."""

    kind: str | None
    sequence: int | None
    what: str
    record: RecordName | None = None
    """Which of the kind's two chains the sequence is about."""


class _Table(NamedTuple):
    """How one of the two tables is read and what its rows must say."""

    name: str
    record: RecordName
    columns: tuple[str, ...]
    read: Callable[[str], Any]
    document: Callable[[Any], dict[str, Json]]
    said_by: Callable[[Any], tuple[Any, ...]]
    index_check: str
    """An expression that counts the row in the table's other indexes; 1 is right."""


class _Damage(Exception):
    def __init__(self, table: _Table, kind: str | None, sequence: int | None, what: str) -> None:
        self.broken = Broken(kind, sequence, what, None if kind is None else table.record)


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
) -> Verified | Broken:
    """Read the record from its beginning to its present end, `page` records at a time.

    Raises:
        DatabaseUnavailable: the database cannot be read at all.
    """
    versions, events = (_Walk(database, table, page) for table in (_VERSIONS, _EVENTS))
    total = await versions.find_end() + await events.find_end()
    try:
        await versions.through_table(_check_revision, lambda done: progress(done, total))
        await events.through_table(
            lambda event, _last: _check_event(database, event),
            lambda done: progress(versions.end + done, total),
        )
        await versions.through_index()
        await events.through_index()
    except _Damage as damage:
        return damage.broken
    wrong = await wrong_guards(database)
    if wrong:
        return Broken(None, None, f"guards are missing, changed or added: {', '.join(wrong)}")
    counts = {kind: Counts(versions.count(kind), events.count(kind)) for kind in versions.heads}
    return Verified(counts)


async def verify_published(ledger: Ledger, published: Stances) -> Broken | None:
    """The first end of a chain, as the service saw it last, that the record does not hold.

    An older copy of the record, or a new one, is whole in itself; it shows only here.

    Raises:
        DatabaseUnavailable: the record cannot be read.
    """
    for kind, mark in sorted(published.recorded.items()):
        record: RecordName = "version"
        try:
            await require_mark(ledger, kind, Mark(mark.sequence, mark.history_digest))
            record = "event"
            await require_mark(ledger, kind, mark)
        except RecordReplaced:
            number = mark.sequence if record == "version" else mark.events
            return Broken(kind, number, f"it is not the {record} that was published", record)
    return None


class _Walk:
    """One way through one of the tables, which remembers the newest record of each kind."""

    def __init__(self, database: Database, table: _Table, page: int) -> None:
        self._database = database
        self._table = table
        self._page_size = page
        self.heads: dict[str, Any] = {}
        self.end = 0

    def count(self, kind: str) -> int:
        return self.heads[kind].sequence if kind in self.heads else 0

    async def find_end(self) -> int:
        """What is recorded while it walks is left for the next time."""
        rows = await self._fetch(f"SELECT coalesce(max(position), 0) FROM {self._table.name}")  # noqa: S608
        self.end = rows[0][0]
        return self.end

    async def through_table(self, check: _Check, progress: Callable[[int], None]) -> None:
        """Check each record by itself and against the one before it."""
        position, limit = 0, self._page_size
        while position < self.end:
            try:
                rows = await self._page(position, limit)
            except (DatabaseUnavailable, UnicodeDecodeError) as error:
                if limit == 1:
                    raise await self._unreadable(position + 1, error) from error
                limit = 1  # go on row by row, up to the one that cannot be read
                continue
            if not rows:
                raise _Damage(
                    self._table, None, None, f"{self._table.name}: the newest records are missing"
                )
            for row in rows[: self.end - position]:
                position += 1
                record = _record(self._table, row, position)
                head = self.heads.get(record.kind)
                _check_link(self._table, record, head)
                await check(record, head)
                self.heads[record.kind] = record
            progress(position)

    async def through_index(self) -> None:
        """Find every record again in the way that readers find it."""
        for kind in self.heads:
            place, last_digest = 0, GENESIS
            while place < self.count(kind):
                for sequence, previous, own, found in await self._index_page(kind, place):
                    if (sequence, previous, found) != (place + 1, last_digest, 1):
                        raise _Damage(
                            self._table, kind, place + 1, "it is not found by its place or its leg"
                        )
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
            raise _Damage(
                self._table, kind, place + 1, f"its index cannot be read ({error})"
            ) from error
        if not rows:
            raise _Damage(self._table, kind, place + 1, "it is not found by its place")
        return rows

    async def _unreadable(self, position: int, error: Exception) -> _Damage:
        """Which record it is that has this position: the index knows, if it can be read."""
        sql = f"SELECT position FROM {self._table.name} WHERE kind = $1 AND sequence = $2"  # noqa: S608
        for kind in KINDS:
            following = self.count(kind) + 1
            if await self._fetch(sql, kind, following) == [(position,)]:
                return _Damage(self._table, kind, following, f"it cannot be read ({error})")
        place = f"{self._table.record} {position} of all kinds"
        return _Damage(self._table, None, None, f"{place} cannot be read ({error})")

    async def _fetch(self, sql: str, *values: Value) -> list[Row]:
        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(sql, *values)

        return await self._database.read(work)


def _record(table: _Table, row: Row, position: int) -> Any:  # noqa: ANN401 - either table's
    found, kind, sequence, *_, text = row
    try:
        record = table.read(text)
        rewritten = canonical(table.document(record))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _Damage(table, kind, sequence, "its text is not a record") from error
    own = table.said_by(record)
    differing = [
        name for name, said, its in zip(table.columns, row[1:], own, strict=False) if said != its
    ]
    if differing and differing[-1] == table.columns[-1]:
        raise _Damage(table, kind, sequence, "its text does not have its digest")
    if differing:
        raise _Damage(
            table, record.kind, record.sequence, f"columns differ: {', '.join(differing)}"
        )
    if rewritten != text:
        raise _Damage(
            table, kind, sequence, "its text is not canonical, or its evidence has changed"
        )
    if found != position:
        raise _Damage(table, kind, sequence, "a record before it is missing")
    return record


def _check_link(table: _Table, record: Any, head: Any | None) -> None:  # noqa: ANN401
    expected = 1 if head is None else head.sequence + 1
    if record.sequence != expected:
        raise _Damage(table, record.kind, expected, "it is missing")
    before = GENESIS if head is None else table.said_by(head)[-1]
    if record.previous_digest != before:
        raise _Damage(table, record.kind, record.sequence, "it does not follow the one before it")


async def _check_revision(version: Version, head: Version | None) -> None:
    same_leg = head is not None and head.leg_id == version.leg_id
    expected = head.revision + 1 if head is not None and same_leg else 1
    if version.revision != expected:
        raise _Damage(
            _VERSIONS, version.kind, version.sequence, f"its revision should be {expected}"
        )


async def _check_event(database: Database, event: Event) -> None:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.fetch(_DIGEST_OF, event.kind, event.version_sequence)

    rows = await database.read(work)
    evidence = [
        withdrawal_digest(row[0], why=event.why, by=event.by, salt=event.salt) for row in rows
    ]
    if event.type != WITHDRAWN or evidence != [event.evidence_digest]:
        raise _Damage(
            _EVENTS, event.kind, event.sequence, "the event is not about a recorded version"
        )


_DIGEST_OF = "SELECT history_digest FROM stance_versions WHERE kind = $1 AND sequence = $2"

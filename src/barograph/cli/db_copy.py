"""Copies the two SQLite databases of a data folder to PostgreSQL.

The record is appended in steps, and an interrupted copy continues after the last one. The service's
database comes last and in one transaction, so a service finds all of it or nothing.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from barograph.cli.common import UPGRADE_WAIT_MS
from barograph.errors import BarographError, ConfigurationError
from barograph.history.ledger import HISTORY
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable, Queryable, Row, Transaction
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.postgresql import copy_rows
from barograph.kit.sqlite import SQLiteDatabase
from barograph.settings import Settings

PAGE = 5_000
BUSY_MS = 2_000

Counts = dict[str, int]
"""How many rows each table has."""

Advance = Callable[[int], None]
"""Takes how many more rows were copied."""

_NOT_COPIED = ("schema_migrations", "secret_fingerprints")
"""Every database has its own migrations, and hosts compare their secrets only on PostgreSQL."""

_STORED_AS = {
    "TEXT": "text",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "DOUBLE PRECISION": "real",
}
_DIGESTS = {"stance_versions": "history_digest", "stance_events": "event_digest"}


class Copied(NamedTuple):
    """What the copy holds, and whether an earlier run had already completed it."""

    service: Counts
    history: Counts
    was_complete: bool


class _Column(NamedTuple):
    name: str
    type: str
    is_key: bool


def copy_databases(
    settings: Settings, service: Path, history: Path, progress: Callable[[int, int], None]
) -> Copied:
    """Copy two SQLite files to the databases that the settings name.

    Raises:
        ConfigurationError: the settings don't name PostgreSQL, or a file is missing or too old.
        BarographError: a service runs, a value can't be stored, or a database has other data.
        DatabaseUnavailable: a database can't be used; run it again.
    """
    targets = settings.database_address, settings.history_address
    if any(isinstance(each, Path) for each in targets):
        raise ConfigurationError(
            "BAROGRAPH_DATABASE_URL and BAROGRAPH_HISTORY_URL must name the PostgreSQL databases "
            "to copy to"
        )
    for file in (service, history):
        if not file.is_file():
            raise ConfigurationError(
                f"there is no {file}: choose the folder of the SQLite databases with --from"
            )
    try:
        return asyncio.run(_copy((service, history), targets, progress))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise DatabaseUnavailable(f"{service.parent} can't be read: {error}") from error


async def _copy(
    files: tuple[Path, Path], targets: tuple[Any, Any], progress: Callable[[int, int], None]
) -> Copied:
    for file, schema in zip(files, (SERVICE, HISTORY), strict=True):
        await _require_upgraded(file, schema)
    # The files are closed first. That stops a write that goes on after it was interrupted.
    async with _opened(targets[0]) as service, _opened(targets[1]) as history:
        with _Source.locked(files[0]) as old_service, _Source.locked(files[1]) as old_history:
            _require_storable(old_service, old_history)
            await _upgrade(service, SERVICE)
            await _upgrade(history, HISTORY)
            was_complete = await service.read(partial(_is_copied, source=old_service))
            await _require_beginning(history, old_history)
            advance = _adder(progress, old_service.total + old_history.total)
            await _append_record(history, old_history, advance)
            await service.write(partial(_copy_service, source=old_service, advance=advance))
            return Copied(
                await _require_counts(service, old_service),
                await _require_counts(history, old_history),
                was_complete,
            )


async def _require_upgraded(file: Path, schema: str) -> None:
    database = SQLiteDatabase(file, create=False)
    try:
        missing = await missing_migrations(database, packaged_migrations(schema, database.engine))
    finally:
        await database.close()
    if missing:
        raise ConfigurationError(
            f"an older version made {file}: run `barograph db upgrade --data {file.parent}` with "
            "the settings of that folder, so without the URLs of PostgreSQL"
        )


@asynccontextmanager
async def _opened(address: str) -> AsyncIterator[Database]:
    database = open_database(address, write_ms=UPGRADE_WAIT_MS, statement_ms=UPGRADE_WAIT_MS)
    try:
        yield database
    finally:
        await database.close()


class _Source:
    """A SQLite file that no other process has open, or can open meanwhile."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.fetch: Callable[..., Any] = connection.execute
        self.tables: dict[str, list[_Column]] = {}
        # In the order of creation, so a table comes after those that its keys refer to.
        for table, *column in self.fetch(_COLUMNS):
            if table not in _NOT_COPIED:
                self.tables.setdefault(str(table), []).append(_Column(*column))
        self.counts = {table: self.fetch(_COUNT.format(table)).get for table in self.tables}
        self.total = sum(self.counts.values())

    @classmethod
    @contextmanager
    def locked(cls, file: Path) -> Iterator["_Source"]:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            connection.pragma("locking_mode", "exclusive")
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except apsw.BusyError as error:
                raise BarographError(
                    f"another process uses {file}: stop the service (`barograph serve`, "
                    "`barograph collect` or `barograph demo`) and run this again"
                ) from error
            yield cls(connection)

    def names(self, table: str) -> list[str]:
        return [column.name for column in self.tables[table]]


def _require_storable(*sources: _Source) -> None:
    """Refuse values that SQLite keeps and PostgreSQL doesn't, before anything is written."""
    wrong = [
        f"{table}.{column} in the row {key}"
        for source in sources
        for table, columns in source.tables.items()
        for column, *key in source.fetch(_unstorable(table, columns))
    ]
    if wrong:
        raise BarographError(
            f"PostgreSQL can't store {'; '.join(wrong)}: the value has a NUL character or the "
            "wrong type. Correct the row and run this again"
        )


def _unstorable(table: str, columns: list[_Column]) -> str:
    """The first row of a table with a value of the wrong type, or with a NUL character."""
    cases = " ".join(
        f"WHEN typeof({name}) NOT IN ('null', '{_STORED_AS[type_]}') OR instr({name}, char(0)) "
        f"THEN '{name}'"
        for name, type_, _ in columns
    )
    key = ", ".join(column.name for column in columns if column.is_key)
    return f"SELECT CASE {cases} END AS wrong, {key} FROM {table} WHERE wrong IS NOT NULL LIMIT 1"  # noqa: S608


async def _upgrade(database: Database, schema: str) -> None:
    await upgrade(database, packaged_migrations(schema, database.engine), system_clock)


async def _is_copied(tx: Queryable, source: _Source) -> bool:
    """Whether a database holds the copy, and not nothing.

    Raises:
        BarographError: it holds something else.
    """
    found, expected = await tx.fetch(_MARK), source.fetch(_MARK).fetchall()
    counts = await _counts(tx, source)
    if counts == source.counts and found == expected:
        return True
    # An upgrade marks an empty database; everything else comes from use.
    is_other_kind = {kind for kind, _ in found} - {kind for kind, _ in expected}
    if sum(counts.values()) > counts["instance"] or is_other_kind:
        raise BarographError(
            "the database of BAROGRAPH_DATABASE_URL is in use or marked for another kind of data: "
            "nothing was copied. Create an empty database, and copy to that"
        )
    return False


async def _require_beginning(database: Queryable, source: _Source) -> None:
    """Check that PostgreSQL has the first versions and events of the same record, or none.

    Raises:
        BarographError: it has others.
    """
    for table, digest in _DIGESTS.items():
        sql = _HEADS.format(table=table, digest=digest)
        end = await _end(database, table)
        if await database.fetch(sql, end) != source.fetch(sql, (end,)).fetchall():
            raise BarographError(
                "the database of BAROGRAPH_HISTORY_URL has another record: nothing was copied. "
                "Create an empty database, and copy to that"
            )


async def _append_record(database: Database, source: _Source, advance: Advance) -> None:
    ends = [await _end(database, table) for table in _DIGESTS]
    advance(sum(ends))
    entries = _entries(source, *ends)
    while page := list(islice(entries, PAGE)):
        await database.write(partial(_append, source=source, page=page))
        advance(len(page))
    fences = source.fetch("SELECT name, token FROM fences").fetchall()
    await database.write(lambda tx: tx.execute_many(_RAISE_FENCE, fences))


def _entries(source: _Source, versions: int, events: int) -> Iterator[Row]:
    """What follows the given positions, in an order that the guards accept.

    An event is only accepted while the version that it is about is the newest of its kind.
    """
    return heapq.merge(source.fetch(_VERSIONS, (versions,)), source.fetch(_EVENTS, (events,)))


async def _append(tx: Transaction, source: _Source, page: list[Row]) -> None:
    for is_event, rows in groupby(page, itemgetter(1)):
        table = list(_DIGESTS)[is_event]
        await copy_rows(tx, table, source.names(table), (row[3:] for row in rows))


async def _copy_service(tx: Transaction, source: _Source, advance: Advance) -> None:
    if await _is_copied(tx, source):
        return
    # A slow disk may need longer for the next rows than a service may pause.
    await tx.execute(f"SET LOCAL idle_in_transaction_session_timeout = {UPGRADE_WAIT_MS}")
    await tx.execute("DELETE FROM instance")
    for table in source.tables:
        columns = source.names(table)
        # As the rows lie in the file: in the order of insertion or of the key. Guards accept both.
        rows = source.fetch(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED")  # noqa: S608
        while page := list(islice(rows, PAGE)):
            await copy_rows(tx, table, columns, page)
            advance(len(page))
    # The token stays: the next leader's must be higher than the one that the record has seen.
    await tx.execute("UPDATE leases SET holder = NULL, expires_at = 0")
    await tx.execute("ANALYZE")


async def _require_counts(database: Database, source: _Source) -> Counts:
    found = await database.read(partial(_counts, source=source))
    expected = source.counts
    differing = [f"{each}: {found[each]} of {expected[each]} rows" for each in expected]
    if found != expected:
        raise BarographError(f"the copy is not complete: {', '.join(differing)}")
    return found


async def _counts(tx: Queryable, source: _Source) -> Counts:
    return {table: (await tx.fetch(_COUNT.format(table)))[0][0] for table in source.tables}


async def _end(database: Queryable, table: str) -> int:
    ((end,),) = await database.fetch(f"SELECT coalesce(max(position), 0) FROM {table}")  # noqa: S608
    return int(end)


def _adder(progress: Callable[[int, int], None], total: int) -> Advance:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    return advance


_COLUMNS = """
SELECT tables.name, columns.name, columns.type, columns.pk > 0
FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
ORDER BY tables.rowid, columns.cid
"""
_COUNT = "SELECT count(*) FROM {}"
_MARK = "SELECT kind, marked_at FROM instance"
_HEADS = """
SELECT kind, sequence, {digest} FROM {table}
WHERE position IN (SELECT max(position) FROM {table} WHERE position <= $1 GROUP BY kind)
ORDER BY kind
"""
_VERSIONS = """
SELECT position, 0, 0, stance_versions.* FROM stance_versions WHERE position > $1 ORDER BY position
"""
_EVENTS = """
SELECT * FROM (
    SELECT max(versions.position) OVER (ORDER BY events.position), 1, events.position AS place,
        events.*
    FROM stance_events AS events JOIN stance_versions AS versions
    ON versions.kind = events.kind AND versions.sequence = events.version_sequence
)
WHERE place > $1 ORDER BY place
"""
_RAISE_FENCE = """
INSERT INTO fences (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fences.token < excluded.token
"""

"""Copies databases between SQLite files and PostgreSQL.

To PostgreSQL, the service's database is copied first and in one transaction. A mark in it says that
the copy is incomplete, so no process starts on it until the record is copied too. The record is
appended in steps, and an interrupted copy continues after the last one.

From PostgreSQL, one transaction reads a database as of one moment, a page of rows at a time.

Functions raise ConfigurationError for wrong settings, DatabaseUnavailable for a database that can't
be used, and BarographError if the data can't be copied.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property, partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from barograph.cli.common import UPGRADE_WAIT_MS
from barograph.cli.databases import (
    COPYING,
    DATABASE,
    HISTORY,
    mark_owner,
    read_comment,
    require_two_databases,
    run_once,
    upgrade_own,
)
from barograph.errors import BarographError, ConfigurationError
from barograph.history.ledger import HISTORY as RECORD
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable, Queryable, Row, Transaction
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.postgresql import copy_rows
from barograph.settings import Settings

PAGE = 5_000
BUSY_MS = 2_000

Counts = dict[str, int]
"""How many rows each table has."""

Progress = Callable[[int, int], None]
Files = tuple[Path, Path]
"""The SQLite files of the service's database and of the history."""

_NOT_COPIED = ("schema_migrations", "secret_fingerprints")
"""Each engine has its own migrations, and the fingerprints are used only on PostgreSQL."""

_STORED_AS = {"TEXT": "text", "INTEGER": "integer", "BIGINT": "integer", "DOUBLE PRECISION": "real"}
_SUMS = {"text": "sum(length({}))", "integer": "sum({} % 1000003)", "real": "count({})"}
"""What both engines compute alike of a column; changed rows have other sums."""

_NOT_COMPARED = {("leases", "holder"), ("leases", "expires_at")}
"""A copied lease has no holder."""

RELEASE_LEASES = "UPDATE leases SET holder = NULL, expires_at = 0"
"""The token stays: the next leader's must be higher than the one that the record has seen."""

_DIGESTS = {"stance_versions": "history_digest", "stance_events": "event_digest"}


class Copied(NamedTuple):
    """What the copy holds, and whether an earlier run had already completed it."""

    service: Counts
    history: Counts
    was_complete: bool


def copy_databases(settings: Settings, files: Files, progress: Progress) -> Copied:
    """Copy SQLite files to the PostgreSQL databases that the settings name."""
    if isinstance(settings.database_address, Path) or isinstance(settings.history_address, Path):
        raise ConfigurationError(
            f"{DATABASE} and {HISTORY} must name the PostgreSQL databases to copy to"
        )
    require_two_databases(settings)
    for file, schema in zip(files, (SERVICE, RECORD), strict=True):
        _require_upgraded(file, schema)
    try:
        return asyncio.run(_copy(settings, files, progress))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise DatabaseUnavailable(f"{files[0].parent} can't be read: {error}") from error


def _require_upgraded(file: Path, schema: str) -> None:
    if not file.is_file():
        raise ConfigurationError(f"there is no {file}: choose its folder with --from")
    steps = packaged_migrations(schema)
    if run_once(file, lambda database: missing_migrations(database, steps), create=False):
        raise ConfigurationError(
            f"an older version created {file}: run `barograph db upgrade --data {file.parent}` "
            f"without {DATABASE} and {HISTORY}, then run this again"
        )


async def _copy(settings: Settings, files: Files, progress: Progress) -> Copied:
    service, history = (
        open_database(address, write_ms=UPGRADE_WAIT_MS, statement_ms=UPGRADE_WAIT_MS)
        for address in (settings.database_address, settings.history_address)
    )
    try:
        # If we are cancelled, the files close first. Then a write that still runs on a target
        # fails, and closing the target doesn't wait for the rest of the copy.
        with _locked(files[0]) as old_service, _locked(files[1]) as old_history:
            _require_storable(old_service, old_history)
            await upgrade_own(service, SERVICE, settings.data, copying=True)
            await upgrade_own(history, RECORD, settings.data)
            begun = await _require_beginning(history, old_history)
            advance = _counting(progress, old_service.total + old_history.total)
            copying = partial(
                _copy_service, source=old_service, advance=advance, data=settings.data
            )
            was_copied = await service.write(copying)
            was_recorded = not await _append_record(history, old_history, begun, advance)
            for database, source in ((service, old_service), (history, old_history)):
                await _require_equal(database, source)
            if (await read_comment(service) or "").startswith(COPYING):
                await service.write(partial(mark_owner, data=settings.data))
            return Copied(old_service.counts, old_history.counts, was_copied and was_recorded)
    finally:
        await service.close()
        await history.close()


def _counting(progress: Progress, total: int) -> Callable[[int], None]:
    """A function that takes how many more rows are copied."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    return advance


class SQLiteTables:
    """The tables of a SQLite file that no other process changes."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.fetch: Callable[..., Any] = connection.execute
        self.types: dict[str, dict[str, str]] = {}
        # In the order of creation, so a table comes after those that its keys refer to.
        for table, column, type_ in self.fetch(_COLUMNS):
            self.types.setdefault(table, {})[column] = _STORED_AS[type_]

    @cached_property
    def counts(self) -> Counts:
        """How many rows each table has."""
        count = "SELECT count(*) FROM {}"
        return {table: self.fetch(count.format(table)).get for table in self.types}

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.counts.values())

    @cached_property
    def sums(self) -> dict[str, Row]:
        """What shows that two tables hold the same rows."""
        return {table: next(self.fetch(self.sum(table))) for table in self.types}

    def key(self, table: str) -> str:
        """The columns of a table's primary key."""
        return str(self.fetch(_KEY, (table,)).get)

    def sum(self, table: str) -> str:
        """The query for the number of rows, and for a sum of each column."""
        sums = [
            _SUMS[type_].format(column)
            for column, type_ in self.types[table].items()
            if (table, column) not in _NOT_COMPARED
        ]
        return f"SELECT {', '.join(['count(*)', *sums])} FROM {table}"  # noqa: S608


@contextmanager
def _locked(file: Path) -> Iterator[SQLiteTables]:
    """Open a file, unless another process has it open, and keep others out."""
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("locking_mode", "exclusive")
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError as error:
            raise BarographError(
                f"another process uses {file}: stop the service (`barograph serve`, `barograph "
                "collect` or `barograph demo`) and run this again"
            ) from error
        yield SQLiteTables(connection)


def _require_storable(*sources: SQLiteTables) -> None:
    """Refuse values that SQLite keeps and PostgreSQL doesn't, before anything is written."""
    wrong = [
        f"{table}.{column} in the row {key}"
        for source in sources
        for table, types in source.types.items()
        for column, *key in source.fetch(_unstorable(table, types, source.key(table)))
    ]
    if wrong:
        raise BarographError(
            f"PostgreSQL can't store {'; '.join(wrong)}: the value has a NUL character or the "
            "wrong type. Correct the row and run this again"
        )


def _unstorable(table: str, types: dict[str, str], key: str) -> str:
    """The query for a table's first row with a value of the wrong type or a NUL character."""
    cases = " ".join(
        f"WHEN typeof({column}) NOT IN ('null', '{type_}') OR instr({column}, char(0)) "
        f"THEN '{column}'"
        for column, type_ in types.items()
    )
    return f"SELECT CASE {cases} END AS wrong, {key} FROM {table} WHERE wrong IS NOT NULL LIMIT 1"  # noqa: S608


async def _copy_service(
    tx: Transaction, source: SQLiteTables, advance: Callable[[int], None], data: Path
) -> bool:
    """Copy everything; return whether that was done before."""
    if await _is_copied(tx, source):
        advance(source.total)
        return True
    await mark_owner(tx, data, copying=True)  # until the record is complete too
    # A slow disk may take longer to read the next rows than a transaction may be idle.
    await tx.execute(f"SET LOCAL idle_in_transaction_session_timeout = {UPGRADE_WAIT_MS}")
    await tx.execute("DELETE FROM instance")
    for table, columns in source.types.items():
        # SQLite returns rows in the order of insertion or of the key; the guards accept both.
        rows = source.fetch(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED")  # noqa: S608
        while page := list(islice(rows, PAGE)):
            await copy_rows(tx, table, [*columns], page)
            advance(len(page))
    await tx.execute(RELEASE_LEASES)
    await tx.execute("ANALYZE")
    return False


async def _is_copied(tx: Queryable, source: SQLiteTables) -> bool:
    """Whether a database holds the copy; otherwise it is empty."""
    sums = await _sums(tx, source)
    if sums == source.sums:
        return True
    del sums["instance"]  # an upgrade marks an empty database
    if any(count for count, *_ in sums.values()):
        raise BarographError(f"{DATABASE} names a database with other data: {_REMEDY}")
    return False


async def _sums(tx: Queryable, source: SQLiteTables) -> dict[str, Row]:
    return {table: (await tx.fetch(source.sum(table)))[0] for table in source.types}


async def _require_equal(database: Database, source: SQLiteTables) -> None:
    copied = await database.read(partial(_sums, source=source))
    if other := [table for table, sums in source.sums.items() if copied[table] != sums]:
        raise BarographError(
            f"the copy differs from the folder in {', '.join(other)}: create two empty databases, "
            "and copy to them"
        )


async def _require_beginning(history: Queryable, source: SQLiteTables) -> list[int]:
    """How many versions and events of the same record PostgreSQL has."""
    ends = []
    for table, digest in _DIGESTS.items():
        ((end,),) = await history.fetch(f"SELECT count(*) FROM {table}")  # noqa: S608
        sql = _HEADS.format(table=table, digest=digest)
        if await history.fetch(sql, end) != source.fetch(sql, (end,)).fetchall():
            raise BarographError(f"{HISTORY} names a database with another record: {_REMEDY}")
        ends.append(end)
    return ends


async def _append_record(
    history: Database, source: SQLiteTables, begun: list[int], advance: Callable[[int], None]
) -> bool:
    """Append what follows; return whether there was anything.

    The guards accept an event only while the version that it is about is the newest of its kind.
    """
    advance(sum(begun))
    versions, events = (
        source.fetch(sql, (end,)) for sql, end in zip((_VERSIONS, _EVENTS), begun, strict=True)
    )
    entries = heapq.merge(versions, events)
    while page := list(islice(entries, PAGE)):
        await history.write(partial(_append, source=source, page=page))
        advance(len(page))
    fences = source.fetch("SELECT name, token FROM fences").fetchall()
    await history.write(lambda tx: tx.execute_many(_RAISE_FENCE, fences))
    heads = source.fetch("SELECT name, size, root FROM event_heads").fetchall()
    await history.write(lambda tx: tx.execute_many(_STORE_HEAD, heads))
    return begun != [source.counts[table] for table in _DIGESTS]


async def _append(tx: Transaction, source: SQLiteTables, page: list[Row]) -> None:
    for is_event, rows in groupby(page, itemgetter(1)):
        table = [*_DIGESTS][is_event]
        await copy_rows(tx, table, [*source.types[table]], (row[3:] for row in rows))


async def copy_to_file(url: str, schema: str, file: Path, progress: Progress) -> None:
    """Copy a PostgreSQL database as of one moment to a new SQLite file.

    The file gets the migrations that the database has.
    """
    database = open_database(url, statement_ms=UPGRADE_WAIT_MS)
    try:
        await database.read(partial(_copy_rows, schema=schema, file=file, progress=progress))
    finally:
        await database.close()


async def _copy_rows(tx: Transaction, schema: str, file: Path, progress: Progress) -> None:
    await tx.execute(f"SET LOCAL idle_in_transaction_session_timeout = {UPGRADE_WAIT_MS}")
    ((newest,),) = await tx.fetch("SELECT max(number) FROM schema_migrations")
    steps = [step for step in packaged_migrations(schema) if step.number <= newest]
    target = open_database(file)
    await upgrade(target, steps, system_clock)
    await target.close()
    with closing(apsw.Connection(str(file))) as connection, _unguarded(connection):
        tables = SQLiteTables(connection)
        expected = await _sums(tx, tables)
        advance = _counting(progress, sum(count for count, *_ in expected.values()))
        for table, columns in tables.types.items():
            # In key order, in which the triggers accept the rows when they are copied back.
            rows = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {tables.key(table)}"  # noqa: S608
            insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
            # The driver remembers a statement's columns, so each table has a cursor of its own.
            await tx.execute(f"DECLARE all_{table} NO SCROLL CURSOR FOR {rows}")
            while page := await tx.fetch(f"FETCH {PAGE} FROM all_{table}"):
                connection.executemany(insert, page)
                advance(len(page))
        if other := [name for name, sums in expected.items() if tables.sums[name] != sums]:
            raise BarographError(f"the copy differs from the database in {', '.join(other)}")


@contextmanager
def _unguarded(connection: apsw.Connection) -> Iterator[None]:
    """Fill a file without its triggers, which require the rows of all tables in a certain order."""
    connection.pragma("journal_mode", "off")  # a failed copy is deleted
    connection.pragma("synchronous", "off")
    triggers = connection.execute(_TRIGGERS).fetchall()
    with connection:
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield
        for _, sql in triggers:
            connection.execute(str(sql))


_REMEDY = "nothing was copied. Create an empty database and copy to that one"
_COLUMNS = f"""
SELECT tables.name, columns.name, columns.type
FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT IN {_NOT_COPIED}
ORDER BY tables.rowid, columns.cid
"""  # noqa: S608
_KEY = "SELECT group_concat(name, ', ' ORDER BY pk) FROM pragma_table_info($1) WHERE pk"
_TRIGGERS = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
_HEADS = """
SELECT kind, sequence, {digest} FROM {table}
WHERE position IN (SELECT max(position) FROM {table} WHERE position <= $1 GROUP BY kind)
ORDER BY kind
"""
_VERSIONS = "SELECT position, 0, 0, * FROM stance_versions WHERE position > $1 ORDER BY position"
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
_STORE_HEAD = """
INSERT INTO event_heads (name, size, root) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET size = excluded.size, root = excluded.root
"""

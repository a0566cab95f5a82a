"""Copies the two SQLite databases of a data folder to PostgreSQL.

The service's database is copied first and in one transaction. It says where the record ends, so no
service continues a record that is only partly copied. The record is appended in steps, and an
interrupted copy continues after the last one.
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
from barograph.cli.databases import DATABASE, HISTORY, read_comment, write_comment
from barograph.cli.demo_databases import world_comment
from barograph.demo.files import load_anchor
from barograph.errors import BarographError, ConfigurationError
from barograph.history.ledger import HISTORY as RECORD
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

_NOT_COPIED = ("schema_migrations", "secret_fingerprints")
"""Each engine has its own migrations, and the fingerprints are used only on PostgreSQL."""

_STORED_AS = {"TEXT": "text", "INTEGER": "integer", "BIGINT": "integer", "DOUBLE PRECISION": "real"}
_DIGESTS = {"stance_versions": "history_digest", "stance_events": "event_digest"}


class Copied(NamedTuple):
    """What the copy holds, and whether an earlier run had already completed it."""

    service: Counts
    history: Counts
    was_complete: bool


def copy_databases(settings: Settings, progress: Callable[[int, int], None]) -> Copied:
    """Copy the SQLite databases of the data folder to those that the settings name.

    Raises:
        ConfigurationError: the settings don't name PostgreSQL, or a file is missing or too old.
        BarographError: a service runs, a value can't be stored, or a database has other data.
        DatabaseUnavailable: a database can't be used.
    """
    targets = settings.database_address, settings.history_address
    if any(isinstance(each, Path) for each in targets):
        raise ConfigurationError(
            f"{DATABASE} and {HISTORY} must name the PostgreSQL databases to copy to"
        )
    folder = settings.data
    files = settings.database_path, folder / "history.sqlite3"
    for file in files:
        if not file.is_file():
            raise ConfigurationError(f"there is no {file}: choose its folder with --from")
    anchor = load_anchor(folder, system_clock())
    owner = "live" if anchor is None else world_comment(anchor)
    try:
        return asyncio.run(_copy(files, targets, owner, progress))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise DatabaseUnavailable(f"{folder} can't be read: {error}") from error


async def _copy(
    files: tuple[Path, Path],
    targets: tuple[Any, Any],
    owner: str,
    progress: Callable[[int, int], None],
) -> Copied:
    await _require_upgraded(files[0], SERVICE)
    await _require_upgraded(files[1], RECORD)
    # If we are cancelled, the files close first. Then a write that still runs on a target fails,
    # and closing the target doesn't wait for the rest of the copy.
    async with _opened(targets[0]) as service, _opened(targets[1]) as history:
        with _locked(files[0]) as old_service, _locked(files[1]) as old_history:
            _require_storable(old_service, old_history)
            await _prepare(service, SERVICE, DATABASE, owner)
            await _prepare(history, RECORD, HISTORY, owner)
            begun = await _require_beginning(history, old_history)
            advance = _Advance(progress, old_service.total + old_history.total)
            copying = partial(_copy_service, source=old_service, advance=advance)
            was_copied = await service.write(copying)
            await _append_record(history, old_history, begun, advance)
            return Copied(
                await _require_counts(service, old_service),
                await _require_counts(history, old_history),
                was_copied and begun == [old_history.counts[table] for table in _DIGESTS],
            )


async def _require_upgraded(file: Path, schema: str) -> None:
    database = SQLiteDatabase(file, create=False)
    try:
        missing = await missing_migrations(database, packaged_migrations(schema, database.engine))
    finally:
        await database.close()
    if missing:
        raise ConfigurationError(
            f"an older version created {file}: run `barograph db upgrade --data {file.parent}` "
            f"without {DATABASE} and {HISTORY}, then run this again"
        )


@asynccontextmanager
async def _opened(address: str) -> AsyncIterator[Database]:
    database = open_database(address, write_ms=UPGRADE_WAIT_MS, statement_ms=UPGRADE_WAIT_MS)
    try:
        yield database
    finally:
        await database.close()


class _Source:
    """A SQLite file that no other process has open."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.fetch: Callable[..., Any] = connection.execute
        self.tables: dict[str, list[str]] = {}
        # In the order of creation, so a table comes after those that its keys refer to.
        for table, column in self.fetch(_COLUMNS):
            self.tables.setdefault(table, []).append(column)
        self.counts = {table: self.fetch(_COUNT.format(table)).get for table in self.tables}
        self.total = sum(self.counts.values())


@contextmanager
def _locked(file: Path) -> Iterator[_Source]:
    """Open a file, unless another process has it open, and keep others out.

    Raises:
        BarographError: a service runs.
    """
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
        yield _Source(connection)


def _require_storable(*sources: _Source) -> None:
    """Refuse values that SQLite keeps and PostgreSQL doesn't, before anything is written."""
    wrong = [
        f"{table}.{column} in the row {key}"
        for source in sources
        for table in source.tables
        for column, *key in source.fetch(_unstorable(source, table))
    ]
    if wrong:
        raise BarographError(
            f"PostgreSQL can't store {'; '.join(wrong)}: the value has a NUL character or the "
            "wrong type. Correct the row and run this again"
        )


def _unstorable(source: _Source, table: str) -> str:
    """The first row of a table with a value of the wrong type, or with a NUL character."""
    columns = source.fetch(_TYPES, (table,)).fetchall()
    cases = " ".join(
        f"WHEN typeof({name}) NOT IN ('null', '{_STORED_AS[type_]}') OR instr({name}, char(0)) "
        f"THEN '{name}'"
        for name, type_, _ in columns
    )
    key = ", ".join(name for name, _, is_key in columns if is_key)
    return f"SELECT CASE {cases} END AS wrong, {key} FROM {table} WHERE wrong IS NOT NULL LIMIT 1"  # noqa: S608


async def _prepare(database: Database, schema: str, setting: str, owner: str) -> None:
    """Create the tables, and mark them as those of this instance.

    Raises:
        BarographError: they belong to another demo, or to another kind of data.
    """
    found = await read_comment(database)
    if found is not None and found != owner and not owner.startswith(f"{found} "):
        raise BarographError(f"{setting} names the database of another instance: {_REMEDY}")
    await upgrade(database, packaged_migrations(schema, database.engine), system_clock)
    if found != owner:
        await write_comment(database, owner)


async def _copy_service(tx: Transaction, source: _Source, advance: "_Advance") -> bool:
    """Copy everything; return whether that was done before."""
    if await _is_copied(tx, source):
        advance(source.total)
        return True
    # A slow disk may take longer to read the next rows than a transaction may be idle.
    await tx.execute(f"SET LOCAL idle_in_transaction_session_timeout = {UPGRADE_WAIT_MS}")
    await tx.execute("DELETE FROM instance")
    for table, columns in source.tables.items():
        # SQLite returns rows in the order of insertion or of the key; the guards accept both.
        rows = source.fetch(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED")  # noqa: S608
        while page := list(islice(rows, PAGE)):
            await copy_rows(tx, table, columns, page)
            advance(len(page))
    # The token stays: the next leader's must be higher than the one that the record has seen.
    await tx.execute("UPDATE leases SET holder = NULL, expires_at = 0")
    await tx.execute("ANALYZE")
    return False


async def _is_copied(tx: Queryable, source: _Source) -> bool:
    """Whether a database holds the copy; otherwise it is empty.

    Raises:
        BarographError: it holds something else.
    """
    found, expected = await tx.fetch(_MARK), source.fetch(_MARK).fetchall()
    counts = await _counts(tx, source)
    if (counts, found) == (source.counts, expected):
        return True
    # An upgrade marks an empty database; everything else comes from use.
    is_other_kind = {kind for kind, _ in found} - {kind for kind, _ in expected}
    if sum(counts.values()) > counts["instance"] or is_other_kind:
        raise BarographError(f"{DATABASE} names a database with other data: {_REMEDY}")
    return False


async def _require_beginning(history: Queryable, source: _Source) -> list[int]:
    """How many versions and events of the same record PostgreSQL has.

    Raises:
        BarographError: it has another record.
    """
    ends = []
    for table, digest in _DIGESTS.items():
        ((end,),) = await history.fetch(_COUNT.format(table))
        sql = _HEADS.format(table=table, digest=digest)
        if await history.fetch(sql, end) != source.fetch(sql, (end,)).fetchall():
            raise BarographError(f"{HISTORY} names a database with another record: {_REMEDY}")
        ends.append(end)
    return ends


async def _append_record(
    history: Database, source: _Source, begun: list[int], advance: "_Advance"
) -> None:
    advance(sum(begun))
    entries = _entries(source, *begun)
    while page := list(islice(entries, PAGE)):
        await history.write(partial(_append, source=source, page=page))
        advance(len(page))
    fences = source.fetch("SELECT name, token FROM fences").fetchall()
    await history.write(lambda tx: tx.execute_many(_RAISE_FENCE, fences))


def _entries(source: _Source, versions: int, events: int) -> Iterator[Row]:
    """What follows the given positions, in an order that the guards accept.

    They accept an event only while the version that it is about is the newest of its kind.
    """
    return heapq.merge(source.fetch(_VERSIONS, (versions,)), source.fetch(_EVENTS, (events,)))


async def _append(tx: Transaction, source: _Source, page: list[Row]) -> None:
    for is_event, rows in groupby(page, itemgetter(1)):
        table = list(_DIGESTS)[is_event]
        await copy_rows(tx, table, source.tables[table], (row[3:] for row in rows))


async def _require_counts(database: Database, source: _Source) -> Counts:
    found = await database.read(partial(_counts, source=source))
    if found != source.counts:
        raise BarographError(f"the copy has {found} rows, but the folder {source.counts}: {_AGAIN}")
    return found


async def _counts(tx: Queryable, source: _Source) -> Counts:
    return {table: (await tx.fetch(_COUNT.format(table)))[0][0] for table in source.tables}


class _Advance:
    """Shows how many of all rows are copied."""

    def __init__(self, progress: Callable[[int, int], None], total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def __call__(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._total)


_REMEDY = "nothing was copied. Create an empty database and copy to that one"
_AGAIN = "something else writes there. Copy to two empty databases"
_COLUMNS = f"""
SELECT tables.name, columns.name
FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT IN {_NOT_COPIED}
ORDER BY tables.rowid, columns.cid
"""  # noqa: S608
_TYPES = "SELECT name, type, pk > 0 FROM pragma_table_info($1)"
_COUNT = "SELECT count(*) FROM {}"
_MARK = "SELECT kind, marked_at FROM instance"
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

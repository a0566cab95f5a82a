"""A database in one SQLite file."""

import asyncio
import math
import os
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from barograph.errors import ConfigurationError
from barograph.kit.database import (
    SQLITE,
    ConstraintViolated,
    DatabaseUnavailable,
    Engine,
    Row,
    T,
    Value,
    Work,
    require_storable,
)
from barograph.kit.json import digest

SAFE_WAL = (3, 51, 3)
"""Older SQLite versions can corrupt a WAL database when two connections reset the log at once."""

LOOP_SECONDS = 0.001
"""How long a statement may run on the event loop before it moves to a thread."""

_STEPS = 1_000
"""How many instructions of SQLite, some ten microseconds, pass between two checks of the clock."""

_WAL_PAUSE_SECONDS = 0.005
_LOOK_MS = 5_000
_COPY_PAGES = 1_000


class _SQLiteTransaction:
    """The statements of one transaction, on one cursor: a new one per statement is slower."""

    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement and return its rows."""
        require_storable(values)
        return self._cursor.execute(_question_marks(sql), values).fetchall()

    async def execute(self, sql: str, *values: Value) -> None:
        """Run one statement."""
        require_storable(values)
        self._cursor.execute(_question_marks(sql), values)

    async def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement once for each row of values."""
        checked = (require_storable(row) for row in rows)
        self._cursor.executemany(_question_marks(sql), checked).fetchall()

    async def script(self, sql: str) -> None:
        """Run several statements that take no values."""
        # Fetching the rows runs the next statements.
        self._cursor.execute(sql).fetchall()


class SQLiteDatabase:
    """A SQLite file with two connections for reads and one for writes.

    A single statement mostly takes microseconds, so `fetch` runs it on the event loop: a thread
    would cost a busy web worker a tenth of its time. A statement that takes longer is interrupted
    and repeated in the thread of `read`. Reads never wait for the writer, which has its own thread.
    """

    engine: Engine = SQLITE

    def __init__(
        self,
        path: Path,
        *,
        busy_ms: int = 5_000,
        write_busy_ms: int | None = None,
        create: bool = True,
        survives_power_cuts: bool = True,
    ) -> None:
        """The file at `path` is opened at the first use.

        Only with `create` is a missing file created: a service whose database is gone must not
        continue with an empty one. Data that can be rebuilt need not survive power cuts.
        """
        write_busy_ms = busy_ms if write_busy_ms is None else write_busy_ms
        how = _Opening(path, create=create, synchronous="full" if survives_power_cuts else "off")
        self._fetcher = _SQLiteConnection(how, busy_ms, begin="BEGIN", is_on_loop=True)
        self._reader = _SQLiteConnection(how, busy_ms, begin="BEGIN")
        self._writer = _SQLiteConnection(how, write_busy_ms, begin="BEGIN IMMEDIATE")
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-read")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_thread, self._reader.transact, work)

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one reading statement."""
        await asyncio.sleep(0)  # a loop of reads must not block the event loop
        try:
            return self._fetcher.transact(lambda tx: tx.fetch(sql, *values))
        except _TakesLong:
            return await self.read(lambda tx: tx.fetch(sql, *values))

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction."""
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._writer.transact, work)
        # Mark the failure as seen, in case the caller has gone.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Shielded: a cancelled caller must not leave half a transaction on the thread.
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Close all connections."""
        self._fetcher.close()
        loop = asyncio.get_running_loop()
        for thread, used in ((self._read_thread, self._reader), (self._thread, self._writer)):
            await loop.run_in_executor(thread, used.close)
            thread.shutdown(wait=False)


class _Opening(NamedTuple):
    """Which file to open, and how."""

    path: Path
    create: bool
    synchronous: str


class _TakesLong(Exception):
    """A transaction on the event loop was interrupted."""


class _SQLiteConnection:
    """One SQLite connection, opened at the first use.

    On the event loop, a transaction raises `_TakesLong` if its work takes `LOOP_SECONDS`. BEGIN,
    COMMIT and ROLLBACK are never interrupted.
    """

    def __init__(
        self, how: _Opening, busy_ms: int, begin: str, *, is_on_loop: bool = False
    ) -> None:
        self._how = how
        self._busy_ms = busy_ms
        self._begin = begin
        self._is_on_loop = is_on_loop
        self._begun_at = math.inf
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None

    def transact(self, work: Work[T]) -> T:
        try:
            connection = self._open()
            cursor = connection.cursor()
            cursor.execute(self._begin)
        except apsw.Error as error:
            raise DatabaseUnavailable(_reason(error)) from error
        try:
            self._begun_at = time.monotonic()
            result = _run_to_end(work(_SQLiteTransaction(cursor)))
            self._begun_at = math.inf
            cursor.execute("COMMIT")
        except BaseException as error:
            # An interrupted ROLLBACK would leave the transaction open for good.
            self._begun_at = math.inf
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, apsw.InterruptError):
                raise _TakesLong from None
            if isinstance(error, apsw.ConstraintError):
                raise ConstraintViolated(str(error)) from error
            if isinstance(error, apsw.Error):
                raise DatabaseUnavailable(_reason(error)) from error
            raise
        return result

    def _open(self) -> apsw.Connection:
        """The connection to the file that has the name now.

        A deleted or moved file would stay readable and writable for the process that has it open.
        """
        path = self._how.path
        if self._connection is not None and file_identity(path) != self._file:
            self.close()
        if self._connection is None:
            # An empty file in place of a lost database would only hide the loss.
            create = self._how.create and self._file is None
            self._connection = _connect(self._how._replace(create=create), self._busy_ms)
            self._file = file_identity(path)
            if self._is_on_loop:
                self._connection.set_progress_handler(self._takes_long, _STEPS)
        return self._connection

    def _takes_long(self) -> bool:
        return time.monotonic() - self._begun_at > LOOP_SECONDS

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def sqlite_version() -> tuple[int, ...]:
    """The version of the SQLite library in use."""
    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))


def sqlite_tables(path: Path) -> set[str]:
    """The tables of a file; none if it is missing or not a SQLite database.

    Raises:
        DatabaseUnavailable: the file can't be read.
    """
    if not path.is_file():
        return set()
    try:
        # Read-only, so that looking changes nothing.
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_LOOK_MS)
            rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {str(name) for (name,) in rows}
        finally:
            connection.close()
    except apsw.NotADBError:
        return set()
    except apsw.Error as error:
        raise DatabaseUnavailable(f"{path.name} cannot be read: {error}") from error


def copy_sqlite_file(source: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Copy a database as of one moment while other processes write to it.

    Writers don't wait, but their log grows until the copy is complete.
    """
    with (
        target.open("ab") as file,
        closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as old,
        closing(apsw.Connection(str(target))) as new,
    ):
        old.set_busy_timeout(_LOOK_MS)
        # Without a transaction, the next write of another process would restart the copy.
        old.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        new.pragma("synchronous", "off")
        with new.backup("main", old, "main") as copy:
            while not copy.done:
                copy.step(_COPY_PAGES)
                os.fdatasync(file.fileno())  # one large sync at the end would make writers wait
                progress(copy.page_count - copy.remaining, copy.page_count)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Tells the file at a path from any other that replaces it; None if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _connect(how: _Opening, busy_ms: int) -> apsw.Connection:
    if sqlite_version() < SAFE_WAL:
        raise ConfigurationError(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt its log; install apsw 3.51.3 or newer"
        )
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if how.create else 0)
    connection = apsw.Connection(str(how.path), flags=flags)
    connection.set_busy_timeout(busy_ms)
    _use_wal(connection, time.monotonic() + busy_ms / 1000)
    # FULL: an acknowledged write survives a power cut. NORMAL may lose the last ones.
    connection.pragma("synchronous", how.synchronous)
    # Overwrite deleted content, such as a mail with its link.
    connection.pragma("secure_delete", True)
    # PostgreSQL has such a function of its own; migrations use it.
    connection.create_scalar_function(
        "sha256_hex", lambda *texts: digest(str(texts[0])), 1, deterministic=True
    )
    return connection


def _use_wal(connection: apsw.Connection, deadline: float) -> None:
    """Switch to a write-ahead log.

    SQLite ignores its busy timeout here, so two processes that create a file at the same time would
    make one of them fail.
    """
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_WAL_PAUSE_SECONDS)
        else:
            return


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise RuntimeError("a transaction may await nothing but its own statements")


@lru_cache(maxsize=512)
def _question_marks(sql: str) -> str:
    return re.sub(r"\$(\d+)", r"?\1", sql)


def _reason(error: apsw.Error) -> str:
    """Name the failure without the file's path, which SQLite messages may contain."""
    return f"the database cannot be used ({type(error).__name__})"

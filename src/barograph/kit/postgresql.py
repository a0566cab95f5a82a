"""A database on a PostgreSQL server.

Our code numbers rows by `max() + 1`, which needs one writer at a time. So every write first takes
the same advisory lock. Writes are READ COMMITTED: under a stricter level, a write would read from a
snapshot that is older than its lock.

Locks and settings last for one transaction. A pooler such as pgbouncer may give the connection to
another client afterwards.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from operator import methodcaller
from typing import Any

import asyncpg

from barograph.kit.database import (
    LOST_SECONDS,
    POSTGRESQL,
    ConstraintViolated,
    DatabaseUnavailable,
    Engine,
    Row,
    T,
    Transaction,
    Value,
    Work,
    require_storable,
)
from barograph.kit.timestamps import SECOND

MAX_CONNECTIONS = 3
CONNECT_SECONDS = 3.0

SHORTEST_SECONDS = 0.05
"""With less time left, a read fails at once."""

IDLE_MS = 3_000
"""After this pause the server ends a transaction, so that a frozen process releases its locks."""

STATEMENT_MS = 10_000

OUTCOME_SECONDS = 10.0
OUTCOME_PAUSE_SECONDS = 0.25
"""How long and how often we ask for the outcome of a COMMIT whose reply was lost."""

_BROKEN = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""After these nobody knows what a connection is in the middle of. The driver raises the last when
the server ended a connection while nobody used it."""

_FAILED = (*_BROKEN, TimeoutError, asyncpg.PostgresError)
_LOST = (
    *(ConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    asyncpg.PostgresConnectionError,
    *(asyncpg.AdminShutdownError, asyncpg.CrashShutdownError),
)
"""What the driver raises after the server or the network closed a connection."""

First = Callable[[asyncpg.Connection], Awaitable[T]]
"""The first statement on a connection."""


class NotPermitted(DatabaseUnavailable):
    """Our role lacks the right to do this."""


class PostgreSQLDatabase:
    """A PostgreSQL database with a few connections, which are opened when they are needed."""

    engine: Engine = POSTGRESQL

    def __init__(
        self,
        url: str,
        *,
        lock_ms: int = 5_000,
        statement_ms: int = STATEMENT_MS,
        survives_power_cuts: bool = True,
    ) -> None:
        """A write waits at most `lock_ms` for others; a statement takes at most `statement_ms`."""
        self._url = url
        self._seconds = (max(lock_ms, statement_ms) + SECOND) / SECOND
        limits = (
            f"SET LOCAL statement_timeout = {statement_ms};"
            f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}"
        )
        durable = "on" if survives_power_cuts else "off"
        self._begin_read: First[str] = methodcaller(
            "execute", f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {limits}"
        )
        self._begin_write: First[str] = methodcaller(
            "execute",
            f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_ms};"
            f"SET LOCAL synchronous_commit = {durable}; {limits}",
        )
        self._idle: list[asyncpg.Connection] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        # Writes wait for each other anyway; here they occupy no connection that reads could use.
        self._turn = asyncio.Semaphore(1)
        self._writes: set[asyncio.Task[Any]] = set()

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one reading statement, which is a snapshot of its own."""
        first: First[list[Any]] = methodcaller("fetch", sql, *require_storable(values))
        async with self._connection(first) as (_, rows):
            return [tuple(row) for row in rows]

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot."""
        async with self._connection(self._begin_read) as (connection, _):
            result = await _roll_back_if_failed(connection, work)
            await connection.execute("COMMIT")
            return result

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction, while no other write runs."""
        running = asyncio.ensure_future(self._transact(work))
        self._writes.add(running)
        running.add_done_callback(self._written)
        # Shielded: a cancelled caller must not end the transaction between two statements.
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Finish the writes and close the connections."""
        if self._writes:
            await asyncio.wait(self._writes)
        closing = (connection.close(timeout=CONNECT_SECONDS) for connection in self._idle)
        await asyncio.gather(*closing, return_exceptions=True)
        self._idle.clear()

    def _written(self, running: "asyncio.Task[Any]") -> None:
        self._writes.discard(running)
        if not running.cancelled():
            running.exception()  # marks a failure as seen, in case the caller has gone

    async def _transact(self, work: Work[T]) -> T:
        LOST_SECONDS.set([])  # a write may take its whole time, whatever failed before it
        async with self._connection(self._begin_write, self._turn) as (connection, _):
            (begun,) = await _take_write_lock(connection)
            result = await _roll_back_if_failed(connection, work)
            lost = await _commit(connection)
        if lost is None or await self._was_committed(begun):
            return result
        raise DatabaseUnavailable(_reason(lost)) from lost

    async def _was_committed(self, begun: Row) -> bool:
        """Ask the server whether a transaction was committed.

        Raises:
            DatabaseUnavailable: it doesn't answer, so we don't know.
        """
        try:
            async with asyncio.timeout(OUTCOME_SECONDS):
                while True:
                    LOST_SECONDS.set([])  # each question may take its whole time
                    with suppress(DatabaseUnavailable):
                        ((outcome,),) = await self.fetch(_OUTCOME, *begun)
                        if outcome in {"committed", "aborted"}:
                            return bool(outcome == "committed")
                        if outcome != "in progress":
                            break
                    await asyncio.sleep(OUTCOME_PAUSE_SECONDS)
        except TimeoutError:
            pass
        raise DatabaseUnavailable("the connection was lost during a COMMIT; its outcome is unknown")

    @asynccontextmanager
    async def _connection(
        self, first: First[T], turn: asyncio.Semaphore | None = None
    ) -> AsyncIterator[tuple[asyncpg.Connection, T]]:
        """A connection for one coroutine at a time, and the result of the first statement on it."""
        with _driver_errors_named(), self._seconds_left() as seconds:
            # One timeout for all that a caller waits for before its transaction has begun.
            async with asyncio.timeout(seconds) as waiting, turn or nullcontext(), self._free:
                connection, result = await self._begin(first)
                waiting.reschedule(None)
                with self._ended_if_failed(connection):
                    yield connection, result
                self._keep(connection)

    @contextmanager
    def _seconds_left(self) -> Iterator[float]:
        """How long this transaction may wait, if earlier ones of the same work failed."""
        lost, begun = LOST_SECONDS.get([]), time.monotonic()
        left = self._seconds - sum(lost)
        if left < SHORTEST_SECONDS:
            raise TimeoutError
        try:
            yield left
        except _FAILED:
            lost.append(time.monotonic() - begun)
            raise

    async def _begin(self, first: First[T]) -> tuple[asyncpg.Connection, T]:
        """Run the first statement; if an idle connection was closed, try the next one."""
        while self._idle:
            connection = self._idle.pop()
            with suppress(*_LOST), self._ended_if_failed(connection):
                return connection, await first(connection)
        connection = await asyncpg.connect(
            self._url, timeout=CONNECT_SECONDS, command_timeout=self._seconds
        )
        with self._ended_if_failed(connection):
            return connection, await first(connection)

    @contextmanager
    def _ended_if_failed(self, connection: asyncpg.Connection) -> Iterator[None]:
        """Close a connection that may have unfinished work; keep it after other failures."""
        try:
            yield
        except BaseException as error:
            if connection.is_in_transaction() or _is_doubtful(error):
                connection.terminate()
            self._keep(connection)
            raise

    def _keep(self, connection: asyncpg.Connection) -> None:
        if not connection.is_closed():
            self._idle.append(connection)


class _Statements:
    """The statements that run on one connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement and return its rows."""
        return [tuple(row) for row in await self.connection.fetch(sql, *require_storable(values))]

    async def execute(self, sql: str, *values: Value) -> None:
        """Run one statement."""
        await self.connection.execute(sql, *require_storable(values))

    async def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement once for each row of values."""
        await self.connection.executemany(sql, [require_storable(row) for row in rows])

    async def script(self, sql: str) -> None:
        """Run several statements that take no values."""
        await self.connection.execute(sql)


async def copy_rows(
    tx: Transaction, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]
) -> None:
    """Add rows to a PostgreSQL table by COPY, which is three times as fast as `execute_many`."""
    assert isinstance(tx, _Statements)
    records = map(require_storable, rows)
    await tx.connection.copy_records_to_table(table, columns=list(columns), records=records)


async def _roll_back_if_failed(connection: asyncpg.Connection, work: Work[T]) -> T:
    statements: Transaction = _Statements(connection)
    try:
        return await work(statements)
    except Exception as error:
        if not (connection.is_closed() or _is_doubtful(error)):
            await connection.execute("ROLLBACK")
        raise


async def _take_write_lock(connection: asyncpg.Connection) -> list[Row]:
    """Wait for other writes; if that takes too long, end a write whose client stopped sending.

    The server ends an idle transaction itself, but waits forever for the rest of a statement.
    """
    try:
        return await _roll_back_if_failed(connection, lambda tx: tx.fetch(_LOCK))
    except asyncpg.LockNotAvailableError:
        await connection.execute(_END_CUT_OFF_WRITE, IDLE_MS / SECOND)
        raise


async def _commit(connection: asyncpg.Connection) -> Exception | None:
    """Commit; return a failure after which only the server knows the outcome."""
    try:
        done = await connection.execute("COMMIT")
    except _FAILED as error:
        connection.terminate()
        return error
    if done != "COMMIT":  # but ROLLBACK
        raise RuntimeError("a statement failed but its error was caught: nothing was written")
    return None


@contextmanager
def _driver_errors_named() -> Iterator[None]:
    """Translate the driver's errors to those of `kit.database`."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        # Neither its details nor the error itself, which name the values of the row.
        raise ConstraintViolated(error.args[0]) from None
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        # PostgreSQL raises the second for a role without USAGE on the schema.
        raise NotPermitted(_reason(error)) from error
    except asyncpg.DataError as error:
        # Our own mistake. The driver's message names the value.
        raise ValueError(f"a value does not fit its column ({type(error).__name__})") from None
    except _FAILED as error:
        raise DatabaseUnavailable(_reason(error)) from error


def _is_doubtful(error: BaseException) -> bool:
    """Whether a connection may have unfinished work, such as a cancelled query."""
    return not isinstance(error, Exception) or isinstance(error, _BROKEN)


def _reason(error: Exception) -> str:
    """Name the failure without the server's address."""
    return f"the database cannot be used ({type(error).__name__})"


_LOCK = """
SELECT CAST(pg_current_xact_id() AS TEXT), CAST(pg_postmaster_start_time() AS TEXT),
    CAST(now() AS TEXT)
FROM pg_advisory_xact_lock(1)
"""
_END_CUT_OFF_WRITE = """
SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = 1
    AND datname = current_database() AND wait_event = 'ClientRead'
    AND state_change < clock_timestamp() - make_interval(secs => $1)
"""
# After a crash, the server may reuse the number of a lost transaction for one that commits. A crash
# also resets the server's statistics, and the time of that reset tells us.
_OUTCOME = """
SELECT CASE WHEN CAST(pg_postmaster_start_time() AS TEXT) = $2
    AND stats_reset < CAST(CAST($3 AS TEXT) AS timestamptz)
    THEN pg_xact_status(CAST(CAST($1 AS TEXT) AS xid8)) ELSE 'unknown' END
FROM pg_stat_bgwriter
"""

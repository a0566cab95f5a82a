"""A database on PostgreSQL: one writer at a time, and parts that freeze, vanish and come back."""

import asyncio
import pkgutil
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from traceback import format_exception

import asyncpg
import pytest

import barograph
from barograph.kit.database import (
    LOST_SECONDS,
    POSTGRESQL,
    ConstraintViolated,
    Database,
    DatabaseUnavailable,
    Engine,
    Row,
    Transaction,
    Value,
)
from barograph.kit.postgresql import MAX_CONNECTIONS, PostgreSQLDatabase
from support.backends import Backend, StartPython
from support.postgresql import HOST, PostgreSQL, running_postgresql
from support.stances import make_history

COUNT = "SELECT count(*) FROM numbers"
VERBS = (["SELECT"], ["INSERT"], ["UPDATE"], ["DELETE"])
Open = Callable[[], Database]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return POSTGRESQL


@pytest.fixture
def url(backend: Backend) -> str:
    return str(backend.address)


@pytest.fixture
def numbers(empty_database: Database, runner: asyncio.Runner) -> Database:
    """A database with an empty table of numbers."""
    runner.run(empty_database.write(create))
    return empty_database


async def create(tx: Transaction) -> None:
    await tx.script("CREATE TABLE numbers (number BIGINT PRIMARY KEY)")


async def add(tx: Transaction) -> int:
    sql = "INSERT INTO numbers SELECT coalesce(max(number), 0) + 1 FROM numbers RETURNING number"
    ((number,),) = await tx.fetch(sql)
    return int(number)


async def test_eight_writers_that_number_rows_by_the_highest_all_succeed_without_a_gap(
    numbers: Database, open_database: Open
) -> None:
    writers = [open_database() for _ in range(8)]
    assert sorted(
        await asyncio.gather(*(each.write(add) for _ in range(10) for each in writers))
    ) == list(range(1, 81))


async def test_no_more_than_three_connections_are_opened(empty_database: Database) -> None:
    sql = "SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01) WHERE datname = current_database()"

    counts = await asyncio.gather(*(empty_database.fetch(sql) for _ in range(12)))
    assert max(rows[0][0] for rows in counts) == MAX_CONNECTIONS


async def test_reads_are_answered_while_writes_wait(numbers: Database, open_database: Open) -> None:
    holds, may_end = asyncio.Event(), asyncio.Event()

    async def hold(tx: Transaction) -> int:
        holds.set()
        await may_end.wait()
        return await add(tx)

    async with asyncio.TaskGroup() as group:
        holder = group.create_task(open_database().write(hold))
        await holds.wait()
        waiting = [group.create_task(numbers.write(add)) for _ in range(2 * MAX_CONNECTIONS)]
        for _ in range(20):
            assert await numbers.fetch(COUNT) == [(0,)]
        may_end.set()
    assert sorted([await each for each in (holder, *waiting)]) == list(range(1, 8))


async def test_a_statement_that_takes_too_long_is_ended_and_the_next_one_runs(url: str) -> None:
    database = PostgreSQLDatabase(url, statement_ms=50)
    with pytest.raises(DatabaseUnavailable):
        await database.read(lambda tx: tx.fetch("SELECT pg_sleep(9)"))
    with pytest.raises(DatabaseUnavailable):
        await database.write(lambda tx: tx.execute("SELECT pg_sleep(9)"))
    assert await database.fetch("SELECT 1") == [(1,)]
    await database.close()


async def test_violation_names_the_constraint_but_no_value_of_the_row(numbers: Database) -> None:
    async def add_twice(tx: Transaction) -> None:
        await tx.execute_many("INSERT INTO numbers VALUES ($1)", [(4711,), (4711,)])

    with pytest.raises(ConstraintViolated, match="numbers_pkey") as violated:
        await numbers.write(add_twice)
    assert "4711" not in "".join(format_exception(violated.value))


async def test_write_that_hides_a_failure_is_not_reported_as_made(numbers: Database) -> None:
    async def hide(tx: Transaction) -> None:
        await add(tx)
        with suppress(asyncpg.PostgresError):
            await tx.execute("SELECT 1 / 0")

    with pytest.raises(RuntimeError, match="nothing was written"):
        await numbers.write(hide)
    assert await numbers.fetch(COUNT) == [(0,)]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and says nothing."""
    with socket.create_server((HOST, 0)) as server:
        yield server


def on_silent(silent: socket.socket, statement_ms: int) -> PostgreSQLDatabase:
    url = f"postgresql://postgres@{HOST}:{silent.getsockname()[1]}/none"
    return PostgreSQLDatabase(url, lock_ms=1, statement_ms=statement_ms)


@pytest.mark.thorough
@pytest.mark.outcome(
    "PostgreSQL accepts connections but doesn't answer",
    "A request fails after the time limit of one statement. The reads of a page share one timeout.",
)
async def test_silent_server_is_waited_for_as_long_as_a_statement(silent: socket.socket) -> None:
    asked = [on_silent(silent, statement_ms).fetch("SELECT 1") for statement_ms in (1_000, 1)]
    waiting = [asyncio.create_task(each) for each in asked]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert done == {waiting[1]}
    assert isinstance(waiting[1].exception(), DatabaseUnavailable)
    waiting[0].cancel()


@pytest.mark.thorough
@pytest.mark.outcome(
    "PostgreSQL accepts connections but doesn't answer",
    "A request fails after the time limit of one statement. The reads of a page share one timeout.",
)
async def test_reads_of_one_page_share_one_timeout(silent: socket.socket) -> None:
    database = on_silent(silent, 1)
    LOST_SECONDS.set([])
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await database.fetch("SELECT 1")

    silent.setblocking(False)
    silent.accept()[0].close()
    with pytest.raises(BlockingIOError):
        silent.accept()


HOLDER = """
import asyncio
from barograph.kit.database import DatabaseUnavailable

def rows():
    for number in range(30_000):
        yield (number,)
    print("holds", flush=True)
    input()

async def between_statements(tx):
    await tx.execute("INSERT INTO numbers VALUES (99)")
    print("holds", flush=True)
    input()

async def within_a_statement(tx):
    await tx.connection.executemany("INSERT INTO numbers VALUES ($1)", rows())

async def main():
    try:
        await database.write({hold})
    except DatabaseUnavailable:
        print("refused", flush=True)

asyncio.run(main())
"""


@pytest.mark.thorough
@pytest.mark.outcome(
    "A process freezes while it writes to PostgreSQL",
    "PostgreSQL rolls its write back after 3 seconds, or when another write times out. "
    "Then other processes can write.",
)
@pytest.mark.parametrize("frozen", ["between_statements", "within_a_statement"])
async def test_frozen_writer_is_ended_and_its_write_is_undone(
    numbers: Database, start_python: StartPython, frozen: str
) -> None:
    holder = start_python(HOLDER.replace("{hold}", frozen))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"
    holder.send_signal(signal.SIGSTOP)
    if frozen == "within_a_statement":
        # PostgreSQL doesn't end it by itself; the first write that waited in vain does.
        with pytest.raises(DatabaseUnavailable, match="LockNotAvailable"):
            await numbers.write(add)
    assert await numbers.write(add) == 1

    holder.send_signal(signal.SIGCONT)
    assert holder.communicate("go\n", timeout=60)[0] == "refused\n"
    assert await numbers.fetch(COUNT) == [(1,)]


AtCommit = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""What happens to a COMMIT, which the given function passes on."""


@asynccontextmanager
async def lost_at_commit(server: PostgreSQL, url: str, at_commit: AtCommit) -> AsyncIterator[str]:
    """A URL by which the first COMMIT is never answered, because the connection is lost."""
    todo = [at_commit]

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        answers, to_server = await asyncio.open_connection(HOST, server.port)

        async def pass_on_answers() -> None:
            while data := await answers.read(65_536):
                to_client.write(data)
            to_client.close()

        answering = asyncio.create_task(pass_on_answers())
        while data := await client.read(65_536):
            if b"COMMIT\0" in data and todo:

                async def ask(data: bytes = data) -> None:
                    to_server.write(data)
                    await answers.read(1)

                answering.cancel()
                await asyncio.wait([answering])
                await todo.pop()(ask)
                to_client.transport.abort()
                break
            to_server.write(data)
        to_server.close()
        await asyncio.wait([answering])

    proxy = await asyncio.start_server(serve, HOST)
    try:
        yield server.url(url.rpartition("/")[2], port=proxy.sockets[0].getsockname()[1])
    finally:
        proxy.close()


class FrozenAtFirst(PostgreSQLDatabase):
    """Its first read waits in vain for the whole timeout."""

    is_frozen = True

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        if self.is_frozen:
            self.is_frozen = False
            LOST_SECONDS.get().append(60.0)
            raise DatabaseUnavailable("frozen")
        return await super().fetch(sql, *values)


async def written_through(
    server: PostgreSQL,
    url: str,
    at_commit: AtCommit,
    make: Callable[[str], Database] = PostgreSQLDatabase,
) -> int:
    async with lost_at_commit(server, url, at_commit) as proxied:
        database = make(proxied)
        try:
            return await database.write(add)
        finally:
            await database.close()


@pytest.mark.outcome(
    "The connection to PostgreSQL breaks before it confirms a write",
    "The process asks PostgreSQL whether it committed, and reports that.",
)
@pytest.mark.parametrize("make", [PostgreSQLDatabase, FrozenAtFirst])
async def test_write_whose_confirmation_is_lost_succeeds_if_the_server_made_it(
    numbers: Database, url: str, postgresql: PostgreSQL, make: type[PostgreSQLDatabase]
) -> None:
    async def pass_on(ask: Callable[[], Awaitable[None]]) -> None:
        await ask()

    assert await written_through(postgresql, url, pass_on, make) == 1
    assert await numbers.fetch(COUNT) == [(1,)]


async def test_write_whose_commit_never_arrives_fails(
    numbers: Database, url: str, postgresql: PostgreSQL
) -> None:
    async def lose(_: Callable[[], Awaitable[None]]) -> None:
        pass

    with pytest.raises(DatabaseUnavailable):
        await written_through(postgresql, url, lose)
    assert await numbers.fetch(COUNT) == [(0,)]


@pytest.fixture
def own_server() -> Iterator[PostgreSQL]:
    """A server that a test may crash."""
    with running_postgresql() as server:
        yield server


@pytest.fixture
def own_url(own_server: PostgreSQL) -> str:
    return own_server.create()


@pytest.mark.thorough
async def test_write_undone_by_a_crash_is_unknown(own_server: PostgreSQL, own_url: str) -> None:
    async def crash(_: Callable[[], Awaitable[None]]) -> None:
        await asyncio.to_thread(own_server.crash)
        await asyncio.to_thread(own_server.start)
        # Whichever number the lost transaction had, others have it now.
        await asyncio.to_thread(own_server.run, *["SELECT pg_current_xact_id()"] * 5)

    database = PostgreSQLDatabase(own_url)
    await database.write(create)
    with pytest.raises(DatabaseUnavailable, match="outcome is unknown"):
        await written_through(own_server, own_url, crash)
    assert await database.fetch(COUNT) == [(0,)]
    await database.close()


@pytest.mark.thorough
@pytest.mark.outcome(
    "PostgreSQL restarts, is killed or freezes",
    "Every process reconnects. Nothing that was acknowledged is lost, and no request fails "
    "afterwards.",
)
async def test_restarted_server_is_used_again(own_server: PostgreSQL, own_url: str) -> None:
    database = PostgreSQLDatabase(own_url)
    await database.write(create)
    await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.01)") for _ in range(3)))
    own_server.crash()
    own_server.start()
    assert await database.fetch(COUNT) == [(0,)]

    own_server.crash()
    with pytest.raises(DatabaseUnavailable):
        await database.fetch(COUNT)
    own_server.start()
    assert await database.write(add) == 1
    assert await database.read(lambda tx: tx.fetch(COUNT)) == [(1,)]
    await database.close()


def statements(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from statements(each)
    elif isinstance(value, str) and value.split(maxsplit=1)[:1] in VERBS:
        yield value


def every_statement() -> set[str]:
    """The SQL of every module that isn't about SQLite itself."""
    names = (each.name for each in pkgutil.walk_packages(barograph.__path__, "barograph."))
    modules = [import_module(name) for name in names if "sqlite" not in name and "main" not in name]
    found = {sql for module in modules for sql in statements(vars(module))}
    foreign = ("sqlite_", "pragma_", "{")  # the last is a template
    return {sql for sql in found if not any(each in sql for each in foreign)}


@pytest.mark.thorough
async def test_every_statement_of_the_product_is_understood(
    database: Database, url: str, new_store: Callable[[], Backend]
) -> None:
    every = every_statement()
    assert len(every) > 100
    addresses = [url, str(new_store().address)]

    history = PostgreSQLDatabase(addresses[1])
    await make_history(history)
    await history.close()
    refused = set(every)
    for address in addresses:
        connection = await asyncpg.connect(address)
        for sql in list(refused):
            with suppress(asyncpg.PostgresError):
                await connection.prepare(sql)
                refused.remove(sql)
        await connection.close()

    # What is left may only be the parts of other statements.
    assert [sql for sql in refused if not any(sql in each for each in every - refused)] == []

"""A real database for each test, the same tests on SQLite and on PostgreSQL.

`make test` runs the tests marked `both_engines` on PostgreSQL too, and `make test-all` all of them.
Everything in a test runs on one event loop, to which a driver may bind its connections.
"""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from barograph.kit.database import POSTGRESQL, SQLITE, Database, Engine
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database as open_at
from support import backends
from support.backends import Backend, StartPython
from support.clock import HandClock
from support.databases import database_address
from support.postgresql import PostgreSQL, running_postgresql


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        called = getattr(item, "callspec", None)
        on_postgresql = called is not None and called.params.get("engine") == POSTGRESQL
        if on_postgresql and item.get_closest_marker("both_engines") is None:
            item.add_marker("thorough")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        server.run("CREATE EXTENSION amcheck", database="template1")
        server.run(f"CREATE DATABASE {SERVICE} TEMPLATE template1")
        asyncio.run(_upgrade(server.url(SERVICE)))
        yield server


async def _upgrade(url: str) -> None:
    database = open_at(url)
    await upgrade(database, packaged_migrations(SERVICE, database.engine), HandClock())
    await database.close()


@pytest.fixture(scope="module", params=[SQLITE, POSTGRESQL])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


@pytest.fixture
def new_store(
    engine: Engine, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], Backend]]:
    """Makes one more empty store on the engine of the test."""
    if engine == SQLITE:
        numbers = count(1)
        yield lambda: Backend(engine, tmp_path / f"store{next(numbers)}.sqlite3")
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    made: list[str] = []

    def create() -> Backend:
        made.append(server.create("template1"))
        return Backend(engine, made[-1])

    yield create
    server.drop(*made)


@pytest.fixture
def backend(
    engine: Engine,
    request: pytest.FixtureRequest,
    new_store: Callable[[], Backend],
    tmp_path: Path,
) -> Iterator[Backend]:
    """The store of the test; a copy of an upgraded one if it wants the schema."""
    if "database" not in request.fixturenames:
        yield new_store()
        return
    if engine == SQLITE:
        yield Backend(engine, database_address(tmp_path / "store.sqlite3"))
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create(SERVICE)
    yield Backend(engine, url)
    server.drop(url)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The loop of one test; `runner.run(work())` as often as needed."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def open_database(backend: Backend, runner: asyncio.Runner) -> Iterator[Callable[[], Database]]:
    """Opens the store once more; all are closed at the end."""
    opened: list[Database] = []

    def open_one() -> Database:
        opened.append(backend.open())
        return opened[-1]

    yield open_one
    for each in opened:
        runner.run(each.close())


@pytest.fixture
def empty_database(open_database: Callable[[], Database]) -> Database:
    """A database without any table."""
    return open_database()


@pytest.fixture
def database(open_database: Callable[[], Database]) -> Database:
    """A database with the schema of this version."""
    return open_database()


@pytest.fixture
def start_python(backend: Backend) -> Iterator[StartPython]:
    """Starts a process that runs a text in which `database` is the test's store."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str) -> "subprocess.Popen[str]":
        started.append(backends.start_python(backend.source + text))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def assert_sound(
    backend: Backend, open_database: Callable[[], Database], runner: asyncio.Runner
) -> Callable[[], None]:
    """Reopen the store and let it check itself."""

    def check() -> None:
        assert runner.run(open_database().fetch(backend.integrity_sql)) == [("ok",)]

    return check

"""A real database for each test, the same tests for every backend.

A backend is one more name in `BACKENDS`, with how this process opens it and how another process
does. Everything in a test runs on one event loop, to which a driver may bind its connections.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.kit.database import Database, Transaction
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from support.clock import HandClock
from support.postgresql import PostgreSQL, running_postgresql


class Backend(NamedTuple):
    """One empty store that any number of processes can open."""

    open: Callable[[], Database]
    source: str
    """Python text that opens it in another process and names it `database`."""

    integrity_sql: str
    """A statement that answers a single `ok` when the store is sound."""


def _sqlite(folder: Path) -> Backend:
    path = folder / "store.sqlite3"
    return Backend(
        open=lambda: SQLiteDatabase(path),
        source="from pathlib import Path\n"
        "from barograph.kit.sqlite import SQLiteDatabase\n"
        f"database = SQLiteDatabase(Path({str(path)!r}))\n",
        integrity_sql="PRAGMA integrity_check",
    )


BACKENDS = {"sqlite": _sqlite}


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        yield server


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return BACKENDS[request.param](tmp_path)


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
def database(empty_database: Database, runner: asyncio.Runner) -> Database:
    """A database with the schema of this version."""
    runner.run(upgrade(empty_database, packaged_migrations(), HandClock()))
    return empty_database


@pytest.fixture
def start_python(backend: Backend) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Starts a process that runs a text in which `database` is the test's store."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", backend.source + text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def assert_sound(
    backend: Backend, open_database: Callable[[], Database], runner: asyncio.Runner
) -> Callable[[], None]:
    """Reopen the store and let it check itself."""

    async def work(tx: Transaction) -> list[tuple[str]]:
        return [(str(row[0]),) for row in await tx.fetch(backend.integrity_sql)]

    def check() -> None:
        assert runner.run(open_database().read(work)) == [("ok",)]

    return check

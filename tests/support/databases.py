"""Upgraded databases, copied instead of upgraded for each test."""

import asyncio
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg

from barograph.history.ledger import HISTORY
from barograph.kit.database import Database, Engine, Row, T, Value, Work
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import Address, open_database
from support.clock import HandClock
from support.postgresql import PostgreSQL, running_postgresql
from support.valkey import Valkey, running_valkey

READY = 3
"""How many empty databases of each schema wait for the next tests."""

KEPT = 40
"""How many used databases the server keeps; a test never comes back to older ones."""


class DatabaseDouble:
    """Passes every call on to another database; a test overrides the calls that it needs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.engine: Engine = database.engine

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        return await self._database.write(work)

    async def close(self) -> None:
        await self._database.close()

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self.read(lambda tx: tx.fetch(sql, *values))


def upgraded_database(path: Path, schema: str = SERVICE) -> Database:
    """The database at a path, created if missing; it does not wait for the disk.

    On PostgreSQL the path only names it.
    """
    return open_database(database_address(path, schema), write_ms=5_000, survives_power_cuts=False)


def database_address(path: Path, schema: str = SERVICE) -> Address:
    """Where the database of a path is; it is created if missing."""
    if _servers:
        return _servers[0].url_of(path, schema)
    if not path.exists():
        path.write_bytes(_upgraded(schema))
    return path


def take_away(path: Path) -> None:
    """Make the database of a path unusable."""
    if _servers:
        _servers[0].lock(path)
    else:
        path.rename(path.with_suffix(".aside"))


def bring_back(path: Path) -> None:
    """Undo `take_away`."""
    if _servers:
        _servers[0].unlock(path)
    else:
        path.with_suffix(".aside").rename(path)


def server_settings(data: Path) -> dict[str, str]:
    """The settings that name the servers; none if the tests run on SQLite files."""
    if not _servers:
        return {}
    return {
        "database_url": _servers[0].url_of(data / "barograph.sqlite3", SERVICE),
        "history_url": _servers[0].url_of(data / "history.sqlite3", HISTORY),
        "limits_url": f"{_servers[0].valkey.url}?socket_timeout=5",
    }


@contextmanager
def services_on_servers() -> Iterator[None]:
    """Run the services of all tests on one PostgreSQL server and one Valkey server."""
    with (
        running_postgresql() as postgresql,
        running_valkey() as valkey,
        ThreadPoolExecutor(1) as thread,
    ):
        _servers.append(_TestServers(postgresql, valkey, thread))
        yield
        _servers.pop().close()


class _TestServers:
    """Makes databases ahead of the tests, in a thread, and drops those of earlier tests."""

    def __init__(self, server: PostgreSQL, valkey: Valkey, thread: ThreadPoolExecutor) -> None:
        self.valkey = valkey
        self._server = server
        self._thread = thread
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
        self._connection: asyncpg.Connection | None = None
        self._templates: set[str] = set()
        self._ready: dict[str, deque[Future[str]]] = {}
        self._names: dict[Path, str] = {}
        self._numbers = count(1)

    def url_of(self, path: Path, schema: str) -> str:
        if path not in self._names:
            ready = self._ready.setdefault(schema, deque())
            while len(ready) <= READY:
                ready.append(self._thread.submit(self._create, schema))
            self._names[path] = ready.popleft().result()
            if len(self._names) > KEPT:
                oldest = self._names.pop(next(iter(self._names)))
                self._thread.submit(self._run, f"DROP DATABASE {oldest} WITH (FORCE)")
        return self._server.url(self._names[path])

    def lock(self, path: Path) -> None:
        name = self._names[path]
        away = f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"
        cut = (
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        self._thread.submit(self._run, away, cut).result()

    def unlock(self, path: Path) -> None:
        back = f"ALTER DATABASE {self._names[path]} ALLOW_CONNECTIONS true"
        self._thread.submit(self._run, back).result()

    def close(self) -> None:
        self._thread.submit(self._disconnect).result()

    def _create(self, schema: str) -> str:
        if schema not in self._templates:
            self._run(f"CREATE DATABASE {schema}")
            self._runner.run(_upgrade(self._server.url(schema), schema))
            self._templates.add(schema)
        name = f"{schema}_{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {schema} STRATEGY file_copy")
        return name

    def _run(self, *statements: str) -> None:
        self._runner.run(self._execute(*statements))

    async def _execute(self, *statements: str) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._server.url("postgres"))
        for each in statements:
            await self._connection.execute(each)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()


_servers: list[_TestServers] = []
"""The servers that all tests use, if they use any."""


@cache
def _upgraded(schema: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.sqlite3"
        asyncio.run(_upgrade(path, schema))
        return path.read_bytes()


async def _upgrade(address: Address, schema: str) -> None:
    database = open_database(address, survives_power_cuts=False)
    await upgrade(database, packaged_migrations(schema, database.engine), HandClock())
    await database.close()

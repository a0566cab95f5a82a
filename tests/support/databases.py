"""Upgraded databases, copied instead of upgraded for each test."""

import asyncio
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from barograph.kit.database import SQLITE, Engine, Row, T, Value, Work
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from support.clock import HandClock


class DatabaseDouble:
    """The part of a test's own database that follows from its `read`."""

    engine: Engine = SQLITE

    async def read(self, work: Work[T]) -> T:
        raise NotImplementedError

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self.read(lambda tx: tx.fetch(sql, *values))


def upgraded_database(
    path: Path, schema: str = SERVICE, *, write_busy_ms: int | None = None
) -> SQLiteDatabase:
    """The database at a path, created if missing; it does not wait for the disk."""
    if not path.exists():
        path.write_bytes(_upgraded(schema))
    return SQLiteDatabase(path, write_busy_ms=write_busy_ms, survives_power_cuts=False)


@cache
def _upgraded(schema: str) -> bytes:
    async def made(path: Path) -> None:
        database = SQLiteDatabase(path, survives_power_cuts=False)
        await upgrade(database, packaged_migrations(schema), HandClock())
        await database.close()

    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.sqlite3"
        asyncio.run(made(path))
        return path.read_bytes()

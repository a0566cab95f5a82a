"""Opens a database by its address: the path of a SQLite file, or a PostgreSQL URL."""

from pathlib import Path

from barograph.kit.database import Database
from barograph.kit.postgresql import STATEMENT_MS, PostgreSQLDatabase
from barograph.kit.sqlite import SQLiteDatabase, sqlite_tables

Address = Path | str

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


def open_database(
    address: Address,
    *,
    create: bool = True,
    read_ms: int = 5_000,
    write_ms: int = 5_000,
    statement_ms: int = STATEMENT_MS,
    survives_power_cuts: bool = True,
) -> Database:
    """A database that connects at its first use.

    A missing SQLite file is created only with `create`. A write waits at most `write_ms` for other
    writes. On SQLite a read waits at most `read_ms` for a lock, which is rare. On PostgreSQL the
    server cancels a statement of a transaction after `statement_ms`.
    """
    if isinstance(address, Path):
        return SQLiteDatabase(
            address,
            busy_ms=read_ms,
            write_busy_ms=write_ms,
            create=create,
            survives_power_cuts=survives_power_cuts,
        )
    return PostgreSQLDatabase(
        address,
        lock_ms=write_ms,
        statement_ms=statement_ms,
        survives_power_cuts=survives_power_cuts,
    )


async def list_tables(address: Address) -> set[str]:
    """The tables of a database; none if the file is missing or not a SQLite database.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    if isinstance(address, Path):
        return sqlite_tables(address)
    database = open_database(address)
    try:
        return {str(name) for (name,) in await database.fetch(_TABLES)}
    finally:
        await database.close()

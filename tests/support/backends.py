"""Stores of either engine, as tests hand them to themselves and to other processes."""

from typing import NamedTuple

import pytest

from barograph.kit.database import POSTGRESQL, SQLITE, Database, Engine
from barograph.kit.opening import Address, open_database

on_sqlite = pytest.mark.parametrize("engine", [SQLITE], indirect=True)
"""For tests of what only SQLite has, such as its oldest migrations and its query plans."""

INTEGRITY = {
    SQLITE: "PRAGMA integrity_check",
    # Each index against its table; it raises at the first difference.
    POSTGRESQL: "SELECT CASE WHEN count(bt_index_check(indexrelid, true)) >= 0 THEN 'ok' END "
    "FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = 'public'::regnamespace",
}


class Backend(NamedTuple):
    """One store that any number of processes can open."""

    engine: Engine
    address: Address

    def open(self) -> Database:
        return open_database(self.address)

    @property
    def source(self) -> str:
        """Python text that opens it in another process and names it `database`."""
        return (
            "from pathlib import *\n"
            "from barograph.kit.opening import open_database\n"
            f"database = open_database({self.address!r})\n"
        )

    @property
    def integrity_sql(self) -> str:
        """A statement that answers a single `ok` when the store is sound."""
        return INTEGRITY[self.engine]


def on_engines(*statements: str) -> list[tuple[Engine, str]]:
    """Each statement with the engines that know it."""
    foreign = {SQLITE: "TRUNCATE", POSTGRESQL: "REPLACE"}
    return [(engine, sql) for engine in foreign for sql in statements if foreign[engine] not in sql]


def drop_trigger(engine: Engine, table: str, what: str) -> str:
    """The statement that drops one of a table's triggers."""
    return f"DROP TRIGGER {table}_{what}" + ("" if engine == SQLITE else f" ON {table}")

"""SQLite and PostgreSQL have the same tables, columns, keys, checks and indexes."""

import re
from pathlib import Path

import pytest

from barograph.history.ledger import HISTORY
from barograph.kit.database import POSTGRESQL, SQLITE, Database, Transaction
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.sqlite import SQLiteDatabase
from support.clock import HandClock
from support.postgresql import PostgreSQL

SCHEMAS = (SERVICE, HISTORY)


@pytest.fixture
def urls(postgresql: PostgreSQL) -> tuple[str, str]:
    """Two empty databases."""
    return postgresql.create(), postgresql.create()


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_migrations_of_both_engines_make_the_same_tables(
    urls: tuple[str, str], schema: str, tmp_path: Path
) -> None:
    sqlite = SQLiteDatabase(tmp_path / "made.sqlite3")
    made, translated = (open_database(url) for url in urls)
    await upgrade(sqlite, packaged_migrations(schema, SQLITE), HandClock())
    await upgrade(made, packaged_migrations(schema, POSTGRESQL), HandClock())
    await translated.write(lambda tx: make_again(tx, sqlite))
    parts = [set(await database.fetch(DESCRIPTION)) for database in (made, translated)]
    for database in (sqlite, made, translated):
        await database.close()

    assert len(parts[0]) > 30
    assert parts[0] ^ parts[1] == set()


async def make_again(tx: Transaction, sqlite: Database) -> None:
    """Run SQLite's statements on PostgreSQL, which then describes both schemas in the same words.

    SQLite compares bytes, and PostgreSQL has to be told to. SQLite's INTEGER has 64 bits, and only
    a key of that type is the table's own row number.
    """
    for (sql,) in await sqlite.fetch(STATEMENTS):
        collated = re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', sql)
        await tx.script(re.sub(r"\bINTEGER PRIMARY KEY\b", "BIGINT PRIMARY KEY", collated))


STATEMENTS = """
SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL ORDER BY rowid
"""
DESCRIPTION = """
WITH tables AS (
    SELECT oid, relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_migrations'
)
SELECT relname::text AS name, 'column ' || lpad(row_number() OVER (
        PARTITION BY tables.oid ORDER BY attnum
    )::text, 2, '0') AS part,
    concat_ws(' ', attname, format_type(atttypid, NULL), collname,
        CASE WHEN attnotnull THEN 'NOT NULL' END, pg_get_expr(adbin, adrelid)) AS definition
FROM tables JOIN pg_attribute ON attrelid = tables.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_collation ON pg_collation.oid = attcollation
LEFT JOIN pg_attrdef ON adrelid = tables.oid AND adnum = attnum
UNION ALL
SELECT relname, 'constraint', pg_get_constraintdef(pg_constraint.oid)
FROM tables JOIN pg_constraint ON conrelid = tables.oid AND contype <> 'n'
UNION ALL
SELECT relname, 'index', pg_get_indexdef(indexrelid)
FROM tables JOIN pg_index ON indrelid = tables.oid
ORDER BY name, part, definition
"""


@pytest.mark.parametrize("schema", SCHEMAS)
def test_later_migrations_have_the_same_numbers_and_names_on_both_engines(schema: str) -> None:
    sqlite, postgresql = (packaged_migrations(schema, each) for each in (SQLITE, POSTGRESQL))
    baseline = postgresql[0]

    assert baseline.name == "baseline"
    assert [(step.number, step.name) for step in postgresql[1:]] == [
        (step.number, step.name) for step in sqlite if step.number > baseline.number
    ]
    assert baseline.number in {step.number for step in sqlite}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_text_is_compared_byte_by_byte_on_postgresql(schema: str) -> None:
    for step in packaged_migrations(schema, POSTGRESQL):
        assert re.findall(r"^ +\w+ TEXT(?! COLLATE \"C\").*", step.sql, re.MULTILINE) == []

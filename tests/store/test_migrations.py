"""Numbered SQL files are applied once each, in order, all or none."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.history.ledger import HISTORY
from barograph.kit.database import Database, DatabaseUnavailable, Transaction, Value
from barograph.kit.migrations import (
    SERVICE,
    Migration,
    missing_migrations,
    packaged_migrations,
    upgrade,
)
from support.backends import StartPython, on_sqlite
from support.clock import START, HandClock

FIRST = Migration(1, "first", "CREATE TABLE one (a BIGINT); CREATE INDEX one_a ON one (a);")
SECOND = Migration(2, "second", "CREATE TABLE two (b BIGINT);")
BROKEN = Migration(3, "broken", "CREATE TABLE three (c BIGINT); CREATE NONSENSE;")
PACKAGED = [step.name for step in packaged_migrations()]


APPLIED = "SELECT number, name, applied_at FROM schema_migrations ORDER BY number"


async def has_table(database: Database, name: str) -> bool:
    try:
        await database.fetch(f"SELECT * FROM {name}")
    except DatabaseUnavailable:
        return False
    return True


async def test_each_migration_is_applied_once_in_order(empty_database: Database) -> None:
    later = HandClock(START + 1)
    assert await upgrade(empty_database, [FIRST], HandClock()) == ["first"]
    assert await missing_migrations(empty_database, [FIRST, SECOND]) == ["second"]
    assert not await has_table(empty_database, "two")
    for names in (["second"], []):
        assert await upgrade(empty_database, [FIRST, SECOND], later) == names

    rows = await empty_database.fetch(APPLIED)
    assert rows == [(1, "first", START), (2, "second", START + 1)]
    assert await has_table(empty_database, "one")
    assert await has_table(empty_database, "two")


def test_the_packaged_migrations_are_numbered_from_one_without_a_gap() -> None:
    service, history = packaged_migrations(SERVICE), packaged_migrations(HISTORY)

    for steps in (service, history):
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.name and step.sql.strip() for step in steps)
    assert not {step.name for step in service} & {step.name for step in history}


@pytest.mark.both_engines
async def test_the_packaged_migrations_make_the_schema(database: Database) -> None:
    for table in ("snapshots", "leases", "readings", "liquidations", "watched_spans"):
        assert await has_table(database, table)
    steps = packaged_migrations(SERVICE, database.engine)
    assert await missing_migrations(database, steps) == []


RECORDED_BEFORE_VENUES: dict[str, tuple[Value, ...]] = {
    "readings": ("hour", "BTCUSDT", START, 50_000.0, 0.01, 8.0, 5e9, None),
    "liquidations": (START, "BTCUSDT", "long", 0.5, 50_000.0),
    "watched_spans": (START, START + 1),
    "regime_changes": (START, "unknown", None),
    "liquidation_hours": (START, 1.5, 0.0, 99.9),
    "settlement_reports": ("BTCUSDT", START, 1, 0.01, START + 1),
}


async def execute(tx: Transaction, sql: str, values: tuple[Value, ...]) -> None:
    await tx.execute(sql, *values)


@on_sqlite
async def test_data_recorded_before_venues_is_of_bybit(empty_database: Database) -> None:
    steps = packaged_migrations()
    await upgrade(empty_database, steps[:13], HandClock())
    expected = {}
    for table, row in RECORDED_BEFORE_VENUES.items():
        places = ", ".join(f"${number + 1}" for number in range(len(row)))
        sql = f"INSERT INTO {table} VALUES ({places})"
        await empty_database.write(partial(execute, sql=sql, values=row))
        coins = [None] if table == "readings" else []  # no open interest in coins
        added = ["", None, None, None, None] if table == "readings" else []
        expected[table] = [("bybit", *row, *coins, "measured", *added)]
    await upgrade(empty_database, steps, HandClock())

    for table, rows in expected.items():
        assert await empty_database.fetch(f"SELECT * FROM {table}") == rows


async def test_edited_migration_is_refused_with_a_remedy(empty_database: Database) -> None:
    await upgrade(empty_database, [FIRST], HandClock())
    edited = FIRST._replace(sql=FIRST.sql + " ")

    with pytest.raises(ConfigurationError, match=r"migration 1 \(first\) was edited .* restore"):
        await upgrade(empty_database, [edited, SECOND], HandClock())

    assert not await has_table(empty_database, "two")


@pytest.mark.outcome(
    "A newer version created the database",
    "The service refuses to start and says what to do.",
)
async def test_database_of_a_newer_version_is_refused(empty_database: Database) -> None:
    await upgrade(empty_database, [FIRST, SECOND], HandClock())

    with pytest.raises(ConfigurationError, match=r"migration 2, .* run the newer barograph"):
        await upgrade(empty_database, [FIRST], HandClock())


@pytest.mark.both_engines
async def test_a_migration_that_fails_leaves_the_old_schema_whole(empty_database: Database) -> None:
    await upgrade(empty_database, [FIRST], HandClock())

    with pytest.raises(DatabaseUnavailable):
        await upgrade(empty_database, [FIRST, SECOND, BROKEN], HandClock())

    assert [name for _, name, _ in await empty_database.fetch(APPLIED)] == ["first"]
    assert not await has_table(empty_database, "two")
    assert not await has_table(empty_database, "three")
    assert await upgrade(empty_database, [FIRST, SECOND], HandClock()) == ["second"]


DIES_IN_THE_MIDDLE = f"""
import asyncio, os, signal
from barograph.kit.migrations import Migration, upgrade

steps = [Migration(*{tuple(FIRST)!r}), Migration(*{tuple(SECOND)!r})]
moments = iter([1])

def clock():  # asked after each file has run
    return next(moments, None) or os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(upgrade(database, steps, clock))
"""


@pytest.mark.both_engines
def test_a_process_that_dies_in_the_middle_leaves_the_old_schema_whole(
    empty_database: Database,
    start_python: StartPython,
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
) -> None:
    assert start_python(DIES_IN_THE_MIDDLE).wait(60) == -signal.SIGKILL

    assert_sound()
    names = runner.run(upgrade(empty_database, [FIRST, SECOND], HandClock()))
    assert names == ["first", "second"]


def start_upgrade(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "barograph", "db", "upgrade", "--data", str(folder)],
        env={name: v for name, v in os.environ.items() if not name.startswith("BAROGRAPH_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_all_succeed(folder: Path, processes: int) -> None:
    upgrades = [start_upgrade(folder) for _ in range(processes)]
    ended = [(each.communicate(timeout=60), each.returncode) for each in upgrades]

    assert [code for _, code in ended] == [0] * processes, ended
    said = [out.splitlines() for (out, _), _ in ended]
    assert [lines.pop() for lines in said] == ["the schema is up to date"] * processes
    # One process may be the first to the history, and another to the service's database.
    recorded = [f"applied {step.name} (history)" for step in packaged_migrations("history")]
    for expected in (recorded, [f"applied {name}" for name in PACKAGED]):
        applied = [[line for line in lines if line in expected] for lines in said]
        assert sorted(applied) == [[]] * (processes - 1) + [expected]
    assert sum(map(len, said)) == len(recorded) + len(PACKAGED)


@pytest.mark.thorough
@pytest.mark.outcome(
    "Several upgrades of the database run at once",
    "All succeed; one of them does the work.",
)
def test_three_upgrades_at_once_all_succeed_and_one_of_them_does_the_work(tmp_path: Path) -> None:
    assert_all_succeed(tmp_path / "data", 3)


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(10))
def test_six_upgrades_at_once_all_succeed_again_and_again(tmp_path: Path, attempt: int) -> None:
    assert_all_succeed(tmp_path / "data", 6)

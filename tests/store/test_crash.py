"""A process that is killed loses nothing that it acknowledged."""

import asyncio
import random
from collections.abc import Callable

import pytest

from barograph.board.board import read_versions
from barograph.kit.database import Database
from support.backends import StartPython, killed_after
from support.clock import START

PUBLISHER = f"""
import asyncio
from barograph.board.board import Publication, publish, read_versions
from barograph.markets.store import ReadingRow, record_rows

async def work(tx):
    version = (await read_versions(tx)).get("one", 0) + 1
    await publish(tx, [Publication("one", "x" * 20_000)])
    row = ReadingRow("minute", "BTCUSDT", {START} + version, 1, 1, 8, 1, None)
    await record_rows(tx, "bybit", readings=[row])
    await publish(tx, [Publication("two", str(version))])
    return version

async def main():
    while True:
        print(await database.write(work), flush=True)

asyncio.run(main())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(
    database: Database,
    start_python: StartPython,
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
    times: int,
) -> None:
    chance = random.Random(9)
    for _ in range(times):
        lines = killed_after(start_python(PUBLISHER), chance.randint(1, 40))
        acknowledged = int(lines[-1])

        kept = runner.run(database.read(read_versions))
        assert acknowledged <= kept["one"] <= acknowledged + 1
        assert kept["two"] == kept["one"]
        rows = runner.run(database.fetch("SELECT at FROM readings ORDER BY at"))
        assert rows == [(START + number,) for number in range(1, kept["one"] + 1)]
    assert_sound()

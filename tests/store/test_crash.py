"""A process that is killed loses nothing that it acknowledged."""

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable

import pytest

from barograph.board.board import read_versions
from barograph.kit.database import Database, Row, Transaction
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


async def readings(tx: Transaction) -> list[Row]:
    return await tx.fetch("SELECT at FROM readings ORDER BY at")


def kill_again_and_again(
    times: int,
    database: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    chance = random.Random(9)
    for _ in range(times):
        publisher = start_python(PUBLISHER)
        assert publisher.stdout is not None
        lines = [publisher.stdout.readline() for _ in range(chance.randint(1, 40))]
        publisher.kill()
        lines += publisher.stdout.readlines()
        assert publisher.wait(60) == -signal.SIGKILL
        acknowledged = [int(line) for line in lines if line.endswith("\n")]

        kept = runner.run(database.read(read_versions))
        assert acknowledged[-1] <= kept["one"] <= acknowledged[-1] + 1
        assert kept["two"] == kept["one"]
        rows = runner.run(database.read(readings))
        assert rows == [(START + number,) for number in range(1, kept["one"] + 1)]


@pytest.mark.thorough
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(
    database: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
) -> None:
    kill_again_and_again(5, database, start_python, runner)
    assert_sound()


@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed_fifty_times(
    database: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
) -> None:
    kill_again_and_again(50, database, start_python, runner)
    assert_sound()

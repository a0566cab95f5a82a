"""A power cut at any instant loses no acknowledged version and leaves none half there."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.history.ledger import Ledger
from barograph.history.verify import IntactRecord, verify
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.sqlite import SQLiteDatabase
from support.backends import TESTS
from support.clock import HandClock
from support.stances import FUNDING, proposal

NAME = "history.sqlite3"

MACHINE = f"""
import asyncio, json, random, sys
sys.path.insert(0, {TESTS!r})
from pathlib import Path
import apsw
from barograph.kit.sqlite import SQLiteDatabase
from barograph.history.ledger import Ledger
from support.clock import HandClock
from support.power_cut import Disk
from support.stances import make_history, proposal

folder, appends, every, synchronous = Path(sys.argv[1]), *map(int, sys.argv[2:])
chance = random.Random(5)
acknowledged, cuts = [], []
steps = 0

def maybe_cut(disk):
    global steps
    steps -= 1
    if steps == 0:
        steps = chance.randint(1, 2 * every)
        disk.after_a_cut(folder / f"cut-{{len(cuts)}}", chance)
        cuts.append(len(acknowledged))

async def main():
    global steps
    disk = Disk(maybe_cut)  # in force for as long as it is held
    if synchronous < 2:
        apsw.connection_hooks.append(lambda connection: connection.set_authorizer(
            lambda action, name, value, *_: apsw.SQLITE_IGNORE
            if (action, name, value) == (apsw.SQLITE_PRAGMA, "synchronous", "full")
            else apsw.SQLITE_OK
        ))
        apsw.connection_hooks.append(lambda connection: connection.pragma("synchronous", 1))
    database = SQLiteDatabase(folder / {NAME!r})
    await make_history(database)
    ledger = Ledger(database, HandClock())
    steps = 1
    for number in range(appends):
        done = await ledger.append(proposal(number // 3, by=f"person {{number}}"))
        acknowledged.append(done.version.history_digest)
        await ledger.newest_versions("rates-desk")
    print(json.dumps({{"acknowledged": acknowledged, "cuts": cuts}}))

asyncio.run(main())
"""


class Run(NamedTuple):
    """What the machine acknowledged, and how much of it before each cut."""

    acknowledged: list[str]
    cuts: list[int]


def run_machine(folder: Path, appends: int, every: int, synchronous: int = 2) -> Run:
    numbers = [str(number) for number in (appends, every, synchronous)]
    done = subprocess.run(
        [sys.executable, "-c", MACHINE, str(folder), *numbers],
        stdout=subprocess.PIPE,
        timeout=300,
        check=True,
    )
    return Run(**json.loads(done.stdout))


async def found_after(folder: Path) -> tuple[list[str], bool, bool]:
    """The digests that are left, whether the record is whole, and whether it goes on."""
    database = SQLiteDatabase(folder / NAME)
    ledger = Ledger(database, HandClock())
    try:
        rows = await ledger.digests(FUNDING, "versions", 0, 1_000_000)
        whole = isinstance(await verify(database), IntactRecord)
        more = await ledger.append(proposal(1_000_000))
        goes_on = more.version.sequence == len(rows) + 1
        return [row.digest for row in rows], whole, goes_on
    finally:
        await database.close()


async def count_after(folder: Path) -> int:
    database = SQLiteDatabase(folder / NAME)
    try:
        return await Ledger(database, HandClock()).count(FUNDING, "versions")
    except DatabaseUnavailable:  # not even the tables are left
        return 0
    finally:
        await database.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("appends", "every", "cuts"),
    [(300, 200, 12), pytest.param(1_500, 40, 300, marks=pytest.mark.long)],
)
def test_a_power_cut_loses_nothing_that_was_acknowledged(
    tmp_path: Path, appends: int, every: int, cuts: int
) -> None:
    run = run_machine(tmp_path, appends, every)  # the log is moved to the file, too

    assert len(run.cuts) >= cuts
    for number, acknowledged in enumerate(run.cuts):
        digests, whole, goes_on = asyncio.run(found_after(tmp_path / f"cut-{number}"))
        assert (whole, goes_on) == (True, True)
        assert acknowledged <= len(digests) <= acknowledged + 1
        assert digests == run.acknowledged[: len(digests)]


def test_the_simulated_cut_takes_what_a_careless_setting_left_unsynced(tmp_path: Path) -> None:
    run = run_machine(tmp_path, appends=60, every=45, synchronous=1)

    kept = [asyncio.run(count_after(tmp_path / f"cut-{n}")) for n in range(len(run.cuts))]

    assert any(left < seen for left, seen in zip(kept, run.cuts, strict=True))

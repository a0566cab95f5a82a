"""A process that is killed while it records loses nothing that it acknowledged."""

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import support
from barograph.history.ledger import Ledger
from barograph.history.verify import IntactRecord, verify
from barograph.kit.database import Database
from support.clock import HandClock
from support.stances import FUNDING, RATES, make_history

pytestmark = pytest.mark.thorough

ISSUER = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(support.__file__).parents[1])!r})
from barograph.history.ledger import Ledger
from support.clock import HandClock
from support.stances import FUNDING, RATES, proposal

async def main():
    ledger = Ledger(database, HandClock())
    number = await ledger.count(FUNDING, "versions")
    while True:
        for kind in (FUNDING, RATES):
            done = await ledger.append(proposal(number, kind=kind))
            print(kind, done.version.sequence, done.version.history_digest, flush=True)
        number += 1
        if number % 3 == 0:
            head = done.version.history_digest
            event = await ledger.withdraw(RATES, why="why", by="ann", expected_head=head)
            print("event", event.sequence, event.event_digest, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def history(empty_database: Database, runner: asyncio.Runner) -> Database:
    runner.run(make_history(empty_database))
    return empty_database


def kill_again_and_again(
    times: int,
    history: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    chance = random.Random(7)
    acknowledged: dict[str, dict[int, str]] = {FUNDING: {}, RATES: {}, "event": {}}
    ledger = Ledger(history, HandClock())
    for _ in range(times):
        issuer = start_python(ISSUER)
        assert issuer.stdout is not None
        lines = [issuer.stdout.readline() for _ in range(chance.randint(1, 30))]
        issuer.kill()
        lines += issuer.stdout.readlines()
        assert issuer.wait(60) == -signal.SIGKILL
        for line in lines:
            if line.endswith("\n"):
                chain, sequence, own = line.split()
                acknowledged[chain][int(sequence)] = own
        assert_kept(acknowledged, ledger, runner)
        assert isinstance(runner.run(verify(history)), IntactRecord)


def assert_kept(
    acknowledged: dict[str, dict[int, str]], ledger: Ledger, runner: asyncio.Runner
) -> None:
    """All that was acknowledged is there, and at most one more that was not told any more."""
    unsaid = 0
    for kind in (FUNDING, RATES):
        rows = runner.run(ledger.digests(kind, "versions", 0, 1_000_000))
        unsaid += follow(acknowledged[kind], {row.sequence: row.digest for row in rows})
    events = runner.run(ledger.digests(RATES, "events", 0, 1_000_000))
    unsaid += follow(acknowledged["event"], {row.sequence: row.digest for row in events})
    assert unsaid <= 1


def follow(said: dict[int, str], kept: dict[int, str]) -> int:
    assert said.items() <= kept.items()
    unsaid = len(kept) - len(said)
    said.update(kept)
    return unsaid


@pytest.mark.outcome(
    "The process that records stances is killed at any moment",
    "No acknowledged version is lost, and none is half written.",
)
def test_nothing_acknowledged_is_lost_when_the_issuer_is_killed(
    history: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
) -> None:
    kill_again_and_again(10, history, start_python, runner)
    assert_sound()


@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_the_issuer_is_killed_fifty_times(
    history: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
) -> None:
    kill_again_and_again(50, history, start_python, runner)
    assert_sound()

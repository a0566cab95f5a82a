"""A process that is killed while it records loses nothing that it acknowledged."""

import asyncio
import random
from collections.abc import Callable

import pytest

from barograph.history.ledger import Ledger
from barograph.history.verify import IntactRecord, verify
from barograph.kit.database import Database
from support.backends import TESTS, StartPython, killed_after
from support.clock import HandClock
from support.stances import FUNDING, RATES, make_history

pytestmark = pytest.mark.thorough

ISSUER = f"""
import asyncio, sys
sys.path.insert(0, {TESTS!r})
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
@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost_when_the_issuer_is_killed(
    history: Database,
    start_python: StartPython,
    assert_sound: Callable[[], None],
    runner: asyncio.Runner,
    times: int,
) -> None:
    chance = random.Random(7)
    acknowledged: dict[str, dict[int, str]] = {FUNDING: {}, RATES: {}, "event": {}}
    ledger = Ledger(history, HandClock())
    for _ in range(times):
        for line in killed_after(start_python(ISSUER), chance.randint(1, 30)):
            chain, sequence, own = line.split()
            acknowledged[chain][int(sequence)] = own
        assert_kept(acknowledged, ledger, runner)
        assert isinstance(runner.run(verify(history)), IntactRecord)
    assert_sound()

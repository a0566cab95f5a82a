"""The demo's past is replayed once, in order, in small transactions, and can be resumed."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.collector.leader import collector_lease
from barograph.errors import ConfigurationError
from barograph.history.ledger import HISTORY
from barograph.kit.database import Row, Transaction, Work
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.settings import Settings
from barograph_demo.configuration import demo_settings
from barograph_demo.replay.observations import Sample
from barograph_demo.replay.older import add_older_samples, lacking
from barograph_demo.replay.replay import MAX_ROWS, moments, replay
from barograph_demo.world.world import World
from support.clock import START, HandClock

pytestmark = pytest.mark.thorough

T = TypeVar("T")
EPOCH = START // HOUR * HOUR - 3 * DAY
TABLES = {
    "readings": "SELECT resolution, contract, at, last_price, long_account_pct FROM readings "
    "ORDER BY 1, 2, 3",
    "liquidations": "SELECT at, contract, side, size, price FROM liquidations "
    "ORDER BY 1, 2, 3, 4, 5",
    "watched": "SELECT min(start_at), max(end_at), count(*) FROM watched_spans",
    "regimes": "SELECT at, label FROM regime_changes ORDER BY at",
    "reports": "SELECT contract, at, revision, funding_rate_pct, read_at FROM settlement_reports "
    "ORDER BY 1, 2, 3",
}


LOSE_FRAME = "DELETE FROM frames WHERE venue = 'bybit' AND at = $1"
LOSE_ROWS = "DELETE FROM readings WHERE venue <> 'bybit' AND at = $1"


class CountingDatabase(SQLiteDatabase):
    """Notes how many rows each transaction wrote."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.written: list[int] = []

    async def write(self, work: Work[T]) -> T:
        async def counted(tx: Transaction) -> T:
            before = (await tx.fetch("SELECT total_changes()"))[0][0]
            result = await work(tx)
            self.written.append((await tx.fetch("SELECT total_changes()"))[0][0] - before)
            return result

        return await super().write(counted)


class Past:
    """A record that a replay fills."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        ports = dict.fromkeys(("exchange", "mail", "macro", "identity"), 9)
        self.settings: Settings = demo_settings(folder, 8080, 1, ports)
        self.database = CountingDatabase(self.settings.database_path)
        self.history = SQLiteDatabase(self.settings.history_path)
        self.clock = HandClock()
        asyncio.run(upgrade(self.database, packaged_migrations(), self.clock))
        asyncio.run(upgrade(self.history, packaged_migrations(HISTORY), self.clock))

    def carry(self) -> int:
        databases = (self.database, self.history)
        world = World(5, EPOCH)
        return asyncio.run(replay(self.settings, world, databases, self.clock, lambda *_: None))

    def lacking(self, now: int = START) -> list[Sample]:
        return asyncio.run(self.database.read(lambda tx: lacking(tx, EPOCH, now)))

    def rows(self, table: str) -> list[Row]:
        return asyncio.run(self.database.fetch(TABLES[table]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """A past that was carried in one go."""
    past = Past(tmp_path_factory.mktemp("replay") / "whole")
    assert past.carry() == len(moments(EPOCH, START))
    yield past
    asyncio.run(past.database.close())


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Past]:
    past = Past(tmp_path / "empty")
    yield past
    asyncio.run(past.database.close())


def test_the_past_is_judged_every_four_hours_and_then_every_hour() -> None:
    todo = moments(EPOCH, START)
    steps = [after - before for before, after in pairwise([EPOCH, *todo])]
    assert todo[-1] == START
    assert set(steps[1:10]) == {4 * HOUR}
    assert set(steps[-25:-1]) == {HOUR}
    assert moments(START, START) == []


def test_no_transaction_of_the_replay_is_large_and_nothing_is_missing(whole: Past) -> None:
    assert max(whole.database.written) <= MAX_ROWS
    assert whole.rows("watched") == [(EPOCH, START, 1)]
    hours = {row[2] for row in whole.rows("readings") if row[0] == "hour"}
    assert hours == set(range(EPOCH + HOUR, START + 1, HOUR))


@pytest.mark.thorough
def test_an_interrupted_replay_gives_the_same_record(whole: Past, empty: Past) -> None:
    empty.clock.now = START - 10 * HOUR
    empty.carry()
    before = empty.rows("readings")
    empty.clock.now = START
    assert empty.carry() == len(moments(START - 10 * HOUR, START))
    assert empty.carry() == 0
    assert set(before) <= set(empty.rows("readings"))
    for table in ("liquidations", "watched"):
        assert empty.rows(table) == whole.rows(table)
    # Reports have the time when they were read.
    assert [row[:-1] for row in empty.rows("reports")] == [r[:-1] for r in whole.rows("reports")]
    # It keeps the hours that were recent then, which a replay in one go judges every four hours.
    assert set(_hourly(empty)) >= set(_hourly(whole))


def test_older_samples_follow_and_a_later_start_adds_those_that_lack(whole: Past) -> None:
    lost = START // (4 * HOUR) * 4 * HOUR - 2 * DAY
    assert Sample(lost + 10 * MINUTE, True) in whole.lacking()
    assert {Sample(lost, False), Sample(lost + HOUR, False, True)} <= set(whole.lacking())

    asyncio.run(add_older_samples(World(5, EPOCH), whole.database, START))

    assert whole.lacking() == []
    asyncio.run(whole.database.write(lambda tx: tx.execute(LOSE_FRAME, lost)))
    asyncio.run(whole.database.write(lambda tx: tx.execute(LOSE_ROWS, lost)))
    assert whole.lacking() == [Sample(lost, True), Sample(lost, False)]


def test_an_outage_since_the_first_start_is_not_filled_by_older_samples(whole: Past) -> None:
    samples = whole.lacking(EPOCH + 63 * DAY)
    assert samples
    assert max(sample.at for sample in samples) < EPOCH + 60 * DAY


def test_the_replay_refuses_a_folder_with_a_running_collector(empty: Past) -> None:
    rival = collector_lease(empty.database, empty.clock)
    asyncio.run(rival.acquire())
    with pytest.raises(ConfigurationError, match="is running on these databases"):
        empty.carry()
    assert empty.rows("readings") == []


def _hourly(past: Past) -> list[Row]:
    return [row for row in past.rows("readings") if row[0] == "hour"]

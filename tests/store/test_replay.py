"""The demo's past is replayed once, in order, in small transactions, and can be resumed."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.collector.leader import collector_lease
from barograph.errors import ConfigurationError
from barograph.events.store import events_of_type
from barograph.history.ledger import HISTORY
from barograph.history.reader import HistoryReader
from barograph.history.records import Version
from barograph.kit.database import Row, Transaction, Work
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.records import ContractName
from barograph.markets.samples import DAYS, STEPS, Measure
from barograph.markets.series import reading_series
from barograph.settings import Settings
from barograph.stances.reveals import Announcement, announcements
from barograph_demo.configuration import demo_settings
from barograph_demo.replay.replay import MAX_ROWS, moments, replay
from barograph_demo.world.contracts import LIVE_SYMBOLS
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
        world = World(5, EPOCH)
        work = replay(
            self.settings,
            world,
            (self.database, self.history),
            self.clock,
            lambda _done, _of: None,
        )
        return asyncio.run(work)

    def rows(self, table: str) -> list[Row]:
        return asyncio.run(self.database.read(lambda tx: tx.fetch(TABLES[table])))

    def charted(self, contract: str, measure: Measure, days: int) -> list[int]:
        """The instants at which the chart of a measure has values."""

        series = asyncio.run(
            self.database.read(
                lambda tx: reading_series(tx, ContractName("bybit", contract), measure, days, START)
            )
        )
        return [point.at for point in series.points if point.value is not None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """A past that was carried in one go."""
    past = Past(tmp_path_factory.mktemp("replay") / "whole")
    assert past.carry() == len(list(moments(EPOCH, START)))
    yield past
    asyncio.run(past.database.close())


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Past]:
    past = Past(tmp_path / "empty")
    yield past
    asyncio.run(past.database.close())


def test_the_past_is_replayed_hourly_and_then_every_five_minutes() -> None:
    todo = list(moments(EPOCH, START))
    steps = [after - before for before, after in pairwise([EPOCH, *todo])]
    assert todo[-1] == START
    assert set(steps[:20]) == {HOUR}
    assert set(steps[-288:-1]) == {5 * MINUTE}
    assert list(moments(START, START)) == []


def test_no_transaction_of_the_replay_is_large_and_nothing_is_missing(whole: Past) -> None:
    assert max(whole.database.written) <= MAX_ROWS
    assert whole.rows("watched") == [(EPOCH, START, 1)]
    hours = {row[2] for row in whole.rows("readings") if row[0] == "hour"}
    assert hours == set(range(EPOCH + HOUR, START + 1, HOUR))


def test_stances_of_the_past_were_announced_before_they_were_issued(whole: Past) -> None:
    async def work() -> tuple[tuple[Announcement, ...], list[Version]]:
        events = await events_of_type(whole.database, "reveal.announced")
        history = HistoryReader(whole.history)
        return announcements(events), await history.newest_versions("funding-regime-stance", 99)

    announced, versions = asyncio.run(work())
    assert [each.after_days for each in announced] == [7]
    assert versions[-1].issued_at == announced[0].at


def test_only_kept_contracts_are_recorded(whole: Past) -> None:
    read = {row[1] for row in whole.rows("readings")}
    liquidated = {row[1] for row in whole.rows("liquidations")}
    assert len(liquidated) > 20
    assert liquidated <= read
    assert all(contract.endswith("USDT") for contract in read)


def test_every_contract_has_long_accounts_wherever_its_charts_have_prices(whole: Past) -> None:
    contracts = {row[1] for row in whole.rows("readings")}
    assert contracts == LIVE_SYMBOLS
    for contract in contracts:
        for days in DAYS:
            shares = whole.charted(contract, "long-accounts", days)
            assert shares == whole.charted(contract, "price", days)
            assert shares[-1] >= START - STEPS[days]


@pytest.mark.thorough
def test_an_interrupted_replay_gives_the_same_record(whole: Past, empty: Past) -> None:
    empty.clock.now = START - 10 * HOUR
    empty.carry()
    before = empty.rows("readings")
    empty.clock.now = START
    assert empty.carry() == len(list(moments(START - 10 * HOUR, START)))
    assert empty.carry() == 0
    assert set(before) <= set(empty.rows("readings"))
    for table in ("liquidations", "watched", "reports"):
        assert empty.rows(table) == whole.rows(table)
    assert _hourly(empty) == _hourly(whole)


def test_the_replay_refuses_a_folder_with_a_running_collector(empty: Past) -> None:
    rival = collector_lease(empty.database, empty.clock)
    asyncio.run(rival.acquire())
    with pytest.raises(ConfigurationError, match="is running on these databases"):
        empty.carry()
    assert empty.rows("readings") == []


def _hourly(past: Past) -> list[Row]:
    return [row for row in past.rows("readings") if row[0] == "hour"]

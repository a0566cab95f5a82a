"""When contracts were listed: what readings, gaps and earlier records say."""

import asyncio

import pytest

from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Transaction
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.judge import MarketJudge, record_market
from barograph.markets.listings import (
    ListingChange,
    listings_of,
    record_listings,
)
from barograph.markets.market_events import DELISTED_AFTER
from barograph.markets.samples import RecordedListing
from barograph.markets.store import ReadingRow, record_backfill
from barograph.settings import Settings
from barograph.venues.records import ContractName, Perpetual
from support.backends import Backend
from support.clock import START
from support.markets import BTC, changed, reading
from support.steps import Steps

pytestmark = pytest.mark.both_engines

PEPE = changed(BTC, contract="1000PEPEUSDT", base="1000PEPE", coin="PEPE", multiplier=1000)


class Record(Steps):
    """Judges readings as the collector does, one transaction each."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.restart()

    def restart(self) -> None:
        self.judge = MarketJudge(Settings())
        self.read(lambda tx: self.judge.load(tx, START))

    def reads(self, at: int, *contracts: Perpetual) -> None:
        conclusion = self.judge.conclude(reading(at, contracts), at)
        self.write(lambda tx: record_market(tx, [conclusion]))
        self.judge.written(conclusion)

    def listed(self, asset: str) -> list[tuple[int, int | None]]:
        found = self.read(lambda tx: listings_of(tx, asset))
        return [(each.listed_at, each.delisted_at) for each in found]


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    return Record(database, runner)


def test_a_contract_that_is_listed_again_has_two_listings(record: Record) -> None:
    record.reads(START, BTC, PEPE)
    record.reads(START + HOUR, BTC)
    record.reads(START + HOUR + DELISTED_AFTER, BTC)
    record.reads(START + 2 * DAY, BTC, PEPE)

    assert record.listed("PEPE") == [(START, START + HOUR), (START + 2 * DAY, None)]
    assert record.listed("BTC") == [(START, None)]
    first = record.read(lambda tx: listings_of(tx, "PEPE"))[0]
    assert first == RecordedListing("bybit", "1000PEPEUSDT", "PEPE", 1000, START, START + HOUR)


def test_a_venue_that_is_down_and_a_restart_delist_nothing(record: Record) -> None:
    record.reads(START, BTC, PEPE)
    record.restart()
    record.reads(START + 5 * DAY, BTC)
    record.reads(START + 5 * DAY + 5, BTC, PEPE)

    assert record.listed("PEPE") == [(START, None)]


def test_back_filled_hours_extend_the_first_listing(record: Record) -> None:
    record.reads(START, BTC)
    rows = [ReadingRow("hour", "BTCUSDT", START - DAY, 1.0, None, None, None, None)]
    name = ContractName("bybit", "BTCUSDT")
    for _ in range(2):
        record.write(lambda tx: record_backfill(tx, name, rows, None, START))

    assert record.listed("BTC") == [(START - DAY, None)]


async def test_an_earlier_record_says_when_its_contracts_were_listed(backend: Backend) -> None:
    database = backend.open()
    steps = packaged_migrations(SERVICE, database.engine)
    await upgrade(database, [step for step in steps if step.number < 29], system_clock)

    async def fill(tx: Transaction) -> None:
        known = {"1000PEPEUSDT": (1, 2), "ETHUSDT": (1, 3), "BTCUSDT": (1, 3, 8)}
        for contract, hours in known.items():
            for hour in hours:
                await tx.execute(_HOUR, contract, hour * HOUR)

    await database.write(fill)
    await upgrade(database, steps, system_clock)
    change = ListingChange("BTCUSDT", 9 * HOUR, "BTC")
    await database.write(lambda tx: record_listings(tx, "bybit", [change]))
    found = [
        each for asset in ("PEPE", "ETH", "BTC") for each in await listings_of(database, asset)
    ]
    await database.close()

    assert found == [
        RecordedListing("bybit", "1000PEPEUSDT", "PEPE", 1000, HOUR, 3 * HOUR),
        RecordedListing("bybit", "ETHUSDT", "ETH", 1, HOUR, None),
        RecordedListing("bybit", "BTCUSDT", "BTC", 1, HOUR, None),
    ]


_HOUR = """
INSERT INTO readings (venue, resolution, contract, at, last_price, origin)
VALUES ('bybit', 'hour', $1, $2, 1.0, 'measured')
"""

"""Totals of all venues from the record, whatever is missing at a venue."""

import asyncio
from functools import partial

import pytest

from barograph.errors import NotFound
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.aggregates import TotalPoint
from barograph.markets.listings import ListingChange, listings_named, record_listings
from barograph.markets.samples import Measure
from barograph.markets.series import SeriesReader, reading_totals, recorded_totals
from barograph.markets.store import ReadingRow, record_rows
from support.clock import START, HandClock
from support.steps import Steps

pytestmark = pytest.mark.both_engines

HERE = START // DAY * DAY
NOW = HERE + 10 * MINUTE
PEPE = {"bybit": ("1000PEPEUSDT", 1000), "hyperliquid": ("kPEPE", 1000), "binance": ("PEPE", 1)}


def row(venue: str, at: int, *, usd: float | None, disputed: str = "") -> ReadingRow:
    contract, multiplier = PEPE[venue]
    coins = None if usd is None else usd / multiplier
    return ReadingRow(
        *("hour", contract, at, 1.0 * multiplier, 0.01, 4, usd, None, coins, disputed),
        mark_price=1.01 * multiplier,
        volume_24h_usd=usd,
    )


class Record(Steps):
    """Records PEPE at three venues."""

    def keep(self, venue: str, *rows: ReadingRow) -> None:
        contract, multiplier = PEPE[venue]

        async def work(tx: Transaction) -> None:
            await record_rows(tx, venue, readings=rows)
            listed = ListingChange(contract, HERE - 2 * DAY, "PEPE", multiplier)
            await record_listings(tx, venue, [listed])

        self.write(work)

    def points(self, measure: Measure, hours: int = 2, now: int = NOW) -> list[TotalPoint]:
        async def work(tx: Transaction) -> list[TotalPoint]:
            grid = range(HERE - (hours - 1) * HOUR, HERE + 1, HOUR)
            listings = await listings_named(tx, "1000PEPE")
            return await recorded_totals(tx, "hour", measure, listings, grid, now=now)

        return self.read(work)


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    record = Record(database, runner)
    for size, venue in enumerate(PEPE, 1):
        record.keep(venue, *(row(venue, HERE - ago * HOUR, usd=100.0 * size) for ago in (1, 0)))
    return record


def test_totals_are_in_single_coins(record: Record) -> None:
    values = {
        "open-interest": 600.0,
        "open-interest-coins": 600.0,
        "volume": 600.0,
        "volume-coins": None,
        "funding": 0.02,
        "price": 1.01,
    }
    for measure, value in values.items():
        *_, point = record.points(measure)  # type: ignore[arg-type]
        known = point.value if point.value is None else round(point.value, 9)
        assert (measure, known) == (measure, value)


def test_a_page_that_begins_in_an_outage_knows_what_was_before_it(record: Record) -> None:
    record.execute(f"DELETE FROM readings WHERE venue = 'binance' AND at = {HERE}")
    (point,) = record.points("open-interest", hours=1)

    assert (point.value, point.with_missing) == (300.0, 600.0)
    assert [(each.venue, each.last_at) for each in point.missing] == [("binance", HERE - HOUR)]
    late = record.points("open-interest", now=HERE + MINUTE)
    assert [each.at for each in late] == [HERE - HOUR], "the newest hour is late, not missing"


def test_a_chart_leaves_out_a_venue_that_was_listed_late(record: Record) -> None:
    for venue in ("bybit", "hyperliquid"):
        hours = range(HERE - DAY, HERE - HOUR, HOUR)
        record.keep(venue, *(row(venue, at, usd=50.0) for at in hours))
    found = record.read(
        lambda tx: reading_totals(tx, "PEPE", "open-interest", 1, tuple(PEPE), now=NOW)
    )

    assert (found.venues, found.left_out) == (["bybit", "hyperliquid"], ["binance"])
    assert [point.value for point in found.points][-3:] == [100.0, 300.0, 300.0]
    reader = SeriesReader(record.database, HandClock(NOW), 95.0, ["bybit"])
    alone = record.run(reader.totals("PEPE", "open-interest", 1))
    assert alone.points[-1].by_venue == {"bybit": 100.0}


def test_a_coin_is_named_as_elsewhere(record: Record) -> None:

    async def assets(tx: Transaction, text: str) -> set[str]:
        return {each.asset for each in await listings_named(tx, text)}

    for text in ("PEPE", "pepe", "1000PEPEUSDT", "kPEPE", "1000pepe"):
        assert record.read(partial(assets, text=text)) == {"PEPE"}
    with pytest.raises(NotFound):
        record.read(partial(assets, text="NOBODY"))


def test_a_venue_that_is_no_longer_read_is_missing_only_while_its_last_values_are_known(
    record: Record,
) -> None:
    week, at = 7 * DAY, HERE + 8 * DAY
    record.keep("bybit", *(row("bybit", HERE + hour * HOUR, usd=100.0) for hour in range(8 * 24)))
    record.keep("hyperliquid", row("hyperliquid", at, usd=200.0))

    async def work(tx: Transaction) -> list[TotalPoint]:
        listings = await listings_named(tx, "PEPE")
        grid = range(HERE + week - HOUR, at, HOUR)
        return await recorded_totals(tx, "hour", "open-interest", listings, grid, now=at + HOUR)

    before, after, *_ = record.read(work)
    assert [each.venue for each in before.missing] == ["binance", "hyperliquid"]
    assert before.with_missing == 600.0
    assert [each.venue for each in after.missing] == ["hyperliquid"], "it is read again later"

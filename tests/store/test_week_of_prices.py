"""The prices of a week come from the recorded hours, the same on both engines."""

import pytest

from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.series import WEEK_STEP, SeriesReader
from barograph.markets.store import ReadingRow, record_rows
from support.clock import START, HandClock

NEWEST = START // HOUR * HOUR
FIRST = NEWEST - 7 * DAY


async def _record(database: Database, prices: dict[int, float]) -> None:
    rows = [
        ReadingRow("hour", "BTCUSDT", at, price, None, None, None, None)
        for at, price in prices.items()
    ]

    await database.write(lambda tx: record_rows(tx, "bybit", readings=rows))


@pytest.mark.both_engines
async def test_week_has_a_price_every_four_hours_where_recorded(database: Database) -> None:
    between, too_old = FIRST + HOUR, FIRST - WEEK_STEP
    await _record(database, {FIRST: 1.0, between: 9.0, NEWEST: 2.0, too_old: 9.0})
    reader = SeriesReader(database, HandClock(), 95, ["bybit"])

    week = await reader.week("bybit")

    assert week == {"BTCUSDT": (1.0, *(None,) * 41, 2.0)}
    assert await reader.week("binance") == {}


@pytest.mark.both_engines
async def test_a_week_is_read_once_per_ten_minutes(database: Database) -> None:
    clock = HandClock()
    await _record(database, {FIRST: 1.0})
    reader = SeriesReader(database, clock, 95, ["bybit"])
    first = await reader.week("bybit")
    await _record(database, {NEWEST: 2.0})

    assert await reader.week("bybit") is first
    clock.pass_seconds(600)
    assert (await reader.week("bybit"))["BTCUSDT"][-1] == 2.0


async def test_a_week_that_cannot_be_read_is_asked_for_again(database: Database) -> None:
    reader = SeriesReader(database, HandClock(), 95, ["bybit"])
    await _rename(database, "readings", "away")

    with pytest.raises(DatabaseUnavailable):
        await reader.week("bybit")

    await _rename(database, "away", "readings")
    assert await reader.week("bybit") == {}


async def _rename(database: Database, old: str, new: str) -> None:
    await database.write(lambda tx: tx.execute(f"ALTER TABLE {old} RENAME TO {new}"))

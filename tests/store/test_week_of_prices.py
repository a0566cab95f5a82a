"""The prices of a week come from the recorded hours, the same on both engines."""

import asyncio

import pytest

from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.series import WEEK_STEP, SeriesReader
from barograph.markets.store import ReadingRow, record_rows
from support.clock import START, HandClock

NEWEST = START // HOUR * HOUR
FIRST = NEWEST - 7 * DAY


def _record(database: Database, runner: asyncio.Runner, prices: dict[int, float]) -> None:
    rows = [
        ReadingRow("hour", "BTCUSDT", at, price, None, None, None, None)
        for at, price in prices.items()
    ]

    runner.run(database.write(lambda tx: record_rows(tx, "bybit", readings=rows)))


@pytest.mark.both_engines
def test_a_week_has_a_price_every_four_hours_and_none_where_nothing_was_recorded(
    database: Database, runner: asyncio.Runner
) -> None:
    between, too_old = FIRST + HOUR, FIRST - WEEK_STEP
    _record(database, runner, {FIRST: 1.0, between: 9.0, NEWEST: 2.0, too_old: 9.0})
    reader = SeriesReader(database, HandClock(), 95, "bybit")

    week = runner.run(reader.week("bybit"))

    assert week == {"BTCUSDT": (1.0, *(None,) * 41, 2.0)}
    assert runner.run(reader.week("binance")) == {}


@pytest.mark.both_engines
def test_a_week_is_read_once_per_ten_minutes(database: Database, runner: asyncio.Runner) -> None:
    clock = HandClock()
    _record(database, runner, {FIRST: 1.0})
    reader = SeriesReader(database, clock, 95, "bybit")
    first = runner.run(reader.week("bybit"))
    _record(database, runner, {NEWEST: 2.0})

    assert runner.run(reader.week("bybit")) is first
    clock.pass_seconds(600)
    assert runner.run(reader.week("bybit"))["BTCUSDT"][-1] == 2.0


def test_a_week_that_cannot_be_read_is_asked_for_again(
    database: Database, runner: asyncio.Runner
) -> None:
    reader = SeriesReader(database, HandClock(), 95, "bybit")
    _rename(database, runner, "readings", "away")

    with pytest.raises(DatabaseUnavailable):
        runner.run(reader.week("bybit"))

    _rename(database, runner, "away", "readings")
    assert runner.run(reader.week("bybit")) == {}


def _rename(database: Database, runner: asyncio.Runner, old: str, new: str) -> None:
    runner.run(database.write(lambda tx: tx.execute(f"ALTER TABLE {old} RENAME TO {new}")))

"""Reads the record as charts and downloads show it."""

from collections.abc import Sequence

from barograph.kit.database import Row, Transaction
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.history import Resolution
from barograph.markets.regime import eight_hour_rate
from barograph.markets.samples import (
    COLUMN_HOURS,
    FINE_STEP,
    GRACE,
    NOT_RECORDED,
    STEPS,
    LiquidationColumn,
    LiquidationSeries,
    Measure,
    PastRegime,
    Series,
    column_starts,
    on_grid,
)

_Values = dict[int, float | None]


async def reading_series(
    tx: Transaction, contract: str, measure: Measure, days: int, now: int
) -> Series:
    """One measure of one contract over the last `days`, which must be one of `DAYS`.

    One day is drawn from the minutes where they tell about as much of it as the hours do: only
    some contracts are recorded by the minute, and a record that has just begun has few of them.
    """
    step = STEPS[days]
    values = await _values(tx, "hour", contract, measure, (now // step * step - days * DAY, step))
    if days == 1:
        minutes = await _values(
            tx, "minute", contract, measure, (now // FINE_STEP * FINE_STEP - DAY, FINE_STEP)
        )
        if minutes and 2 * len(minutes) * FINE_STEP >= len(values) * HOUR:
            step, values = FINE_STEP, minutes
    return Series(contract, measure, days, step, now, on_grid(values, days, step, now))


async def liquidation_series(
    tx: Transaction, days: int, now: int, min_watched_pct: float
) -> LiquidationSeries:
    """Liquidations of the last `days`, up to the hour that ended last."""
    newest = now // HOUR * HOUR - HOUR
    length = COLUMN_HOURS[days] * HOUR
    if now - newest - HOUR < GRACE and not await tx.fetch(_HOUR, newest):
        newest -= HOUR
    starts = column_starts(days, newest)
    rows = await tx.fetch(_COLUMNS, starts[0], starts[-1] + length, length)
    found = {row[0]: row for row in rows}
    columns = (
        _column(at, found.get(at), length, min_watched_pct, is_over=at + length <= now)
        for at in starts
    )
    return LiquidationSeries(days, length, now, tuple(columns))


async def regimes_at(tx: Transaction, contract: str, instants: Sequence[int]) -> list[PastRegime]:
    """The label in force at each instant, with the rate of the contract in that hour.

    A change of the regime tells neither how the rate went on nor whether anybody looked: only an
    hour that was measured has a regime.
    """
    return [await _regime_at(tx, contract, instant) for instant in instants]


async def _regime_at(tx: Transaction, contract: str, instant: int) -> PastRegime:
    measured = await tx.fetch(_RATE, "hour", contract, instant // HOUR * HOUR)
    if not measured:
        return NOT_RECORDED
    changes = await tx.fetch(_REGIME, instant)
    rate_pct, interval_hours = measured[0]
    label = changes[0][0] if changes else None
    return PastRegime(label, eight_hour_rate(rate_pct, interval_hours))


async def _values(
    tx: Transaction,
    resolution: Resolution,
    contract: str,
    measure: Measure,
    grid: tuple[int, int],
) -> _Values:
    """What was recorded at the instants of a grid that has a start and a step."""
    rows = await tx.fetch(_READINGS, resolution, contract, *grid)
    return {row[0]: _value(measure, row) for row in rows}


def _value(measure: Measure, row: Row) -> float | None:
    _, price, rate_pct, interval_hours, open_interest_usd, long_account_pct = row
    values: dict[Measure, float | None] = {
        "price": price,
        "funding": eight_hour_rate(rate_pct, interval_hours),
        "open-interest": open_interest_usd,
        "long-accounts": long_account_pct,
    }
    return values[measure]


def _column(
    at: int, row: Row | None, length: int, min_watched_pct: float, *, is_over: bool
) -> LiquidationColumn:
    watched_pct = 0.0 if row is None else round(row[3] * HOUR / length, 2)
    if row is None or watched_pct == 0:
        return LiquidationColumn(at, None, None, 0.0, partial=True)
    long_usd, short_usd = round(row[1], 2), round(row[2], 2)
    partial = watched_pct < min_watched_pct or not is_over
    return LiquidationColumn(at, long_usd, short_usd, watched_pct, partial)


_READINGS = """
SELECT at, last_price, funding_rate_pct, funding_interval_hours, open_interest_usd,
    long_account_pct
FROM readings WHERE resolution = $1 AND contract = $2 AND at >= $3 AND at % $4 = 0 ORDER BY at
"""
_RATE = """
SELECT funding_rate_pct, funding_interval_hours FROM readings
WHERE resolution = $1 AND contract = $2 AND at = $3
"""
_HOUR = "SELECT at FROM liquidation_hours WHERE at = $1"
_COLUMNS = """
SELECT at - at % $3, SUM(long_usd), SUM(short_usd), SUM(watched_pct) FROM liquidation_hours
WHERE at >= $1 AND at < $2 GROUP BY 1 ORDER BY 1
"""
_REGIME = """
SELECT label FROM regime_changes WHERE at <= $1 ORDER BY at DESC LIMIT 1
"""

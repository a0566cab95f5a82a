"""Reads recorded series for charts and downloads."""

from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from math import inf
from operator import add
from typing import Any, NamedTuple, TypeVar, cast

from barograph.kit.caches import MinuteCache, SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Row, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.liquidation_days import liquidation_day, sums_by_contract
from barograph.markets.liquidation_records import watched_between
from barograph.markets.liquidations import Span, WatchedSpans
from barograph.markets.records import ContractName
from barograph.markets.regime import eight_hour_rate
from barograph.markets.samples import (
    FINE_STEP,
    GRACE,
    MEASURES,
    NOT_RECORDED,
    STEPS,
    LiquidatedHour,
    LiquidationColumn,
    LiquidationDays,
    LiquidationSeries,
    Measure,
    PastRegime,
    Point,
    Series,
    column_starts,
    known_until,
    on_grid,
)
from barograph.markets.store import Resolution, recent_watched

T = TypeVar("T")

KEPT_SERIES = 128
WEEK_STEP = 4 * HOUR
WeekOfPrices = tuple[float | None, ...]
"""43 prices, one every four hours, oldest first; None where nothing was recorded."""

WeekOfValues = WeekOfPrices
"""The same of any measure."""

_Points = dict[int, Point]
_HUNDREDTH = HOUR // 10_000


class SeriesReader:
    """Reads series from the database, each at most once per minute, which is its finest step."""

    def __init__(
        self, database: Database, clock: Clock, min_watched_pct: float, venue: str
    ) -> None:
        self.venue = venue
        """The venue of the liquidations, which don't fail over."""

        self.min_watched_pct = min_watched_pct
        self._database = database
        self._kept: MinuteCache[Hashable, object] = MinuteCache(clock, KEPT_SERIES)
        self._reading: SingleFlight[Hashable, object] = SingleFlight()
        self._weeks: dict[Hashable, tuple[int, object]] = {}

    async def reading(
        self, name: ContractName, measure: Measure, days: int, until: float = inf
    ) -> Series:
        """One measure of a contract over one of `DAYS`, up to an instant or to now.

        Raises:
            DatabaseUnavailable: the database cannot be read.
        """
        return await self.once(
            (name, measure, days, until),
            lambda tx, now: reading_series(tx, name, measure, days, int(min(now, until))),
        )

    async def liquidations(self, days: int, until: float = inf) -> LiquidationSeries:
        """Liquidations of all contracts over one of `DAYS`, as `reading`."""
        return await self.once(
            ("liquidations", days, until),
            lambda tx, now: liquidation_series(
                tx, self.venue, days, int(min(now, until)), self.min_watched_pct
            ),
        )

    async def liquidation_days(self) -> LiquidationDays:
        """The last 24 hours and yesterday, by coin; raises as `reading` does."""
        return await self.once(
            "liquidation days",
            lambda tx, minute: liquidation_days(tx, self.venue, minute, self.min_watched_pct),
        )

    async def regimes(self, name: ContractName, days_ago: Sequence[int]) -> list[PastRegime]:
        """The regime on each past day, with the rate of a contract; raises as `reading` does."""
        found = await self.once(
            ("regimes", name, *days_ago),
            lambda tx, minute: regimes_at(tx, *name, [minute - days * DAY for days in days_ago]),
        )
        return list(found)

    async def week(self, venue: str) -> Mapping[str, WeekOfPrices]:
        """The prices of the last week of every contract of a venue; raises as `reading` does.

        They are read once per ten minutes, and the same mapping is returned until then.
        """
        return await self._hourly(venue, lambda tx, hour: weeks_of_prices(tx, venue, hour))

    async def week_of(self, name: ContractName) -> Mapping[Measure, WeekOfValues]:
        """Every measure of one contract in the last week, as `week`."""
        return await self._hourly(name, lambda tx, hour: week_of_measures(tx, name, hour))

    async def liquidated_hour(self) -> LiquidatedHour:
        """Liquidations of the last hour by contract; raises as `reading` does."""
        return await self.once(
            "liquidated hour", lambda tx, minute: liquidated_hour(tx, self.venue, minute)
        )

    async def _hourly(
        self, key: Hashable, work: Callable[[Transaction, int], Coroutine[Any, Any, T]]
    ) -> T:
        """Read once per ten minutes and key: new and back-filled hours come late."""
        period = self._kept.minute // (10 * MINUTE)
        known = self._weeks.get(key)
        if known is None or known[0] != period:
            hour = self._kept.minute // HOUR * HOUR
            known = self._weeks[key] = period, await self._read(("week", key, period), hour, work)
        return cast("T", known[1])

    async def once(
        self, key: Hashable, work: Callable[[Transaction, int], Coroutine[Any, Any, T]]
    ) -> T:
        """Read once per minute and key, for every caller; raises as `reading` does."""
        kept, minute = self._kept.get(key), self._kept.minute
        if kept is None:
            kept = await self._read((key, minute), minute, work)
            self._kept.put(key, minute, kept)
        return cast("T", kept)

    async def _read(
        self, key: Hashable, at: int, work: Callable[[Transaction, int], Coroutine[Any, Any, T]]
    ) -> object:
        async def read() -> object:
            return await self._database.read(lambda tx: work(tx, at))

        return await self._reading.do(key, read)


async def weeks_of_prices(tx: Transaction, venue: str, hour: int) -> dict[str, WeekOfPrices]:
    """The prices of every contract on the grid of the week that ends in this hour."""
    first = hour - 7 * DAY
    found: dict[str, list[float | None]] = {}
    for contract, at, price in await tx.fetch(_WEEK, venue, first, hour, WEEK_STEP):
        if contract not in found:
            found[contract] = [None] * (7 * DAY // WEEK_STEP + 1)
        found[contract][(at - first) // WEEK_STEP] = price
    return {contract: tuple(prices) for contract, prices in found.items()}


async def week_of_measures(
    tx: Transaction, name: ContractName, hour: int
) -> dict[Measure, WeekOfValues]:
    """Every measure of one contract on the grid of the week that ends in this hour."""
    newest = hour // WEEK_STEP * WEEK_STEP
    grid = range(newest - 7 * DAY, newest + 1, WEEK_STEP)
    found = {
        measure: await recorded_points(tx, "hour", name, measure, grid) for measure in MEASURES
    }
    none = Point(0, None)
    return {
        measure: tuple(points.get(at, none).value for at in grid)
        for measure, points in found.items()
    }


class _Liquidated(NamedTuple):
    """What was liquidated in some time, and how much of it we watched."""

    at: int
    long_usd: float
    short_usd: float
    watched: int


async def reading_series(
    tx: Transaction, name: ContractName, measure: Measure, days: int, now: int
) -> Series:
    """One measure of one contract over the last `days`, which must be one of `DAYS`.

    One day uses readings by the minute if they cover about as much of it as the hourly ones: only
    some contracts have them, and a new record has few. Back-filled hours have no minutes.
    """
    step = STEPS[days]
    start = now // step * step - days * DAY
    points = await recorded_points(tx, "hour", name, measure, range(start, now + 1, step))
    if days == 1 and not any(each.is_backfilled for each in points.values()):
        fine = range(now // FINE_STEP * FINE_STEP - DAY, now + 1, FINE_STEP)
        minutes = await recorded_points(tx, "minute", name, measure, fine)
        if minutes and 2 * len(minutes) * FINE_STEP >= len(points) * HOUR:
            step, points = FINE_STEP, minutes
    found = on_grid(points, days, step, now)
    return Series(name.contract, measure, days, step, now, found, name.venue)


class KnownLiquidations(NamedTuple):
    """Up to when liquidations are known, and up to when whole hours are summed up."""

    until: int
    summed_until: int | None
    watch: WatchedSpans
    """Of the last day."""


async def known_liquidations(tx: Transaction, venue: str, now: int) -> KnownLiquidations:
    """Up to when liquidations are known: the newest recorded minute."""
    watch = WatchedSpans(await recent_watched(tx, venue, now))
    newest = await tx.fetch(_NEWEST_HOUR, venue, now)
    summed_until = newest[0][0] + HOUR if newest else None
    return KnownLiquidations(known_until(now, watch.until, summed_until), summed_until, watch)


async def liquidation_series(
    tx: Transaction, venue: str, days: int, now: int, min_watched_pct: float
) -> LiquidationSeries:
    """Liquidations of the last `days`, up to the newest recorded minute."""
    known = await known_liquidations(tx, venue, now)
    starts = column_starts(days, known.until)
    columns = await liquidation_columns(tx, venue, known, starts, min_watched_pct)
    since = await watched_since(tx, venue)
    begun = since if since is not None and since > starts[0] else None
    return LiquidationSeries(days, starts.step, known.until, columns, begun)


async def liquidation_days(
    tx: Transaction, venue: str, now: int, min_watched_pct: float
) -> LiquidationDays:
    """The 24 hours up to the newest recorded minute, and the UTC day before that of `now`."""
    known = await known_liquidations(tx, venue, now)
    start = now // DAY * DAY - DAY
    hours = range(start, start + DAY, HOUR)
    columns = await liquidation_columns(tx, venue, known, hours, min_watched_pct)
    return LiquidationDays(
        known.watch.until,
        await liquidation_day(tx, venue, known.until - DAY),
        await liquidation_day(tx, venue, start),
        LiquidationSeries(1, HOUR, known.until, columns),
    )


async def liquidation_columns(
    tx: Transaction, venue: str, known: KnownLiquidations, starts: range, min_watched_pct: float
) -> tuple[LiquidationColumn, ...]:
    """Liquidations of all contracts in columns, each as long as the step of their starts.

    Hours are summed up a little after they end; until then we sum single liquidations.
    """
    length = starts.step
    rows = await tx.fetch(_COLUMNS, venue, starts[0], starts[-1] + length, length)
    found = {
        at: _Liquidated(at, longs, shorts, round(100 * watched_pct) * _HUNDREDTH)
        for at, longs, shorts, watched_pct in rows
    }
    for hour in await _open_hours(tx, venue, known):
        at = hour.at // length * length
        before = found.get(at, _Liquidated(at, 0.0, 0.0, 0))
        found[at] = _Liquidated(at, *map(add, before[1:], hour[1:]))
    return tuple(_column(at, found.get(at), length, min_watched_pct, known.until) for at in starts)


async def contract_liquidations(
    tx: Transaction, venue: str, contract: str, kept: Span, starts: range
) -> tuple[LiquidationColumn, ...]:
    """Liquidations of one contract in columns, from single ones, which we have for the span."""
    kept_from, until = kept
    length, end = starts.step, min(starts[-1] + starts.step, until)
    watch = WatchedSpans(await watched_between(tx, venue, starts[0], end, kept_from))
    rows = await tx.fetch(_CONTRACT_EVENTS, venue, contract, starts[0], end, length)
    sums = {(at, side): usd for at, side, usd in rows}
    found = (
        _Liquidated(
            at,
            sums.get((at, "long"), 0.0),
            sums.get((at, "short"), 0.0),
            sum(last - first for first, last in watch.within(at, min(at + length, until))),
        )
        for at in starts
    )
    return tuple(_column(each.at, each, length, 0.0, until) for each in found)


async def liquidated_hour(tx: Transaction, venue: str, now: int) -> LiquidatedHour:
    """The hour up to the newest recorded minute, from single liquidations."""
    until, _, watch = await known_liquidations(tx, venue, now)
    sums = await sums_by_contract(tx, venue, until - HOUR, until)
    return LiquidatedHour(until, watch.pct_within(until - HOUR, until), sums)


async def watched_since(tx: Transaction, venue: str) -> int | None:
    """When we first watched. The stored hours may be older than the stored spans."""
    rows = [*await tx.fetch(_FIRST_SPAN, venue), *await tx.fetch(_FIRST_WATCHED_HOUR, venue)]
    return min((row[0] for row in rows), default=None)


async def _open_hours(tx: Transaction, venue: str, known: KnownLiquidations) -> list[_Liquidated]:
    """The hours that are not summed up yet: the current one, and one that has just ended."""
    until, summed_until, watch = known
    running = (until - 1) // HOUR * HOUR
    hours = (running - HOUR, running) if until - running < GRACE else (running,)
    since = 0 if summed_until is None else summed_until
    return [await _counted(tx, venue, watch, hour, until) for hour in hours if hour >= since]


async def _counted(
    tx: Transaction, venue: str, watch: WatchedSpans, hour: int, until: int
) -> _Liquidated:
    end = min(hour + HOUR, until)
    sums = (await sums_by_contract(tx, venue, hour, end)).values()
    watched = sum(last - first for first, last in watch.within(hour, end))
    longs, shorts = (sum(each[side] for each in sums) for side in (0, 1))
    return _Liquidated(hour, longs, shorts, watched)


async def regimes_at(
    tx: Transaction, venue: str, contract: str, instants: Sequence[int]
) -> list[PastRegime]:
    """The label at each instant, with the contract's rate in that hour.

    Only hours that we measured have a label: it says nothing about a time without a reading, and
    back-filled hours were never judged.
    """
    return [await _regime_at(tx, venue, contract, instant) for instant in instants]


async def _regime_at(tx: Transaction, venue: str, contract: str, instant: int) -> PastRegime:
    hour = instant // HOUR * HOUR
    recorded = await tx.fetch(_RATE, venue, contract, hour)
    if not recorded:
        return NOT_RECORDED
    rate_pct, interval_hours, origin = recorded[0]
    rate = None if rate_pct is None else eight_hour_rate(rate_pct, interval_hours)
    if origin == "backfilled":
        return PastRegime(None, rate, hour, is_backfilled=True)
    changes = await tx.fetch(_REGIME, venue, instant)
    return PastRegime(changes[0][0] if changes else None, rate, hour)


async def first_reading(
    tx: Transaction, venue: str, resolution: Resolution, contract: str
) -> int | None:
    """When the first reading of a contract was recorded."""
    rows = await tx.fetch(_FIRST_READING, venue, resolution, contract)
    return rows[0][0] if rows else None


async def recorded_points(
    tx: Transaction, resolution: Resolution, name: ContractName, measure: Measure, grid: range
) -> _Points:
    """The recorded points at the instants of a grid, whose start is a multiple of its step."""
    key = (name.venue, resolution, name.contract)
    sql = _READINGS.format(column=_COLUMN[measure])
    rows = await tx.fetch(sql, *key, grid.start, grid.stop, grid.step)
    return {row[0]: _point(measure, row) for row in rows}


async def watched_shares(tx: Transaction, venue: str, grid: range, now: int) -> dict[int, float]:
    """The share of each interval of a grid in which the collector was connected.

    Hours are stored with their share a little after they end; until then, and for minutes, we sum
    the spans of the liquidation stream, which the same process watches.
    """
    step, since, end = grid.step, grid.start, min(grid[-1] + grid.step, now)
    watched: Counter[int] = Counter()
    if step >= HOUR:
        for at, pct in await tx.fetch(_WATCHED_HOURS, venue, since, end, step):
            watched[at] = round(100 * pct) * _HUNDREDTH
        newest = await tx.fetch(_NEWEST_HOUR, venue, now)
        since = max(since, newest[0][0] + HOUR) if newest else since
    for start, stop in await watched_between(tx, venue, since, end) if since < end else ():
        for at in range(start - start % step, stop, step):
            watched[at] += min(stop, at + step) - max(start, at)
    return {at: 10_000 * each // step / 10_000 for at, each in watched.items()}


def _point(measure: Measure, row: Row) -> Point:
    at, value, interval_hours, origin = row
    if measure == "funding" and value is not None:
        value = eight_hour_rate(value, interval_hours)
    return Point(at, value, value is not None and origin == "backfilled")


def _column(
    at: int, found: _Liquidated | None, length: int, min_watched_pct: float, until: int
) -> LiquidationColumn:
    if found is None or not found.watched:
        return LiquidationColumn(at, None, None, 0.0, partial=True)
    passed = min(length, until - at)
    watched_pct = 10_000 * found.watched // passed / 100  # cut: 100 is all of it
    partial = watched_pct < min_watched_pct or passed < length
    return LiquidationColumn(
        at, round(found.long_usd, 2), round(found.short_usd, 2), watched_pct, partial
    )


_READINGS = """
SELECT at, {column}, funding_interval_hours, origin FROM readings
WHERE venue = $1 AND resolution = $2 AND contract = $3 AND at >= $4 AND at < $5 AND at % $6 = 0
ORDER BY at
"""
_COLUMN: dict[Measure, str] = {
    "price": "last_price",
    "funding": "funding_rate_pct",
    "open-interest": "open_interest_usd",
    "long-accounts": "long_account_pct",
}
_WEEK = """
WITH RECURSIVE grid(at) AS (
    SELECT CAST($2 AS BIGINT) UNION ALL SELECT at + $4 FROM grid WHERE at < $3
)
SELECT contract, readings.at, last_price
FROM grid CROSS JOIN readings
WHERE resolution = 'hour' AND readings.at = grid.at AND venue = $1
"""
"""SQLite keeps the order of a cross join; otherwise it would read every hour of the venue."""

_WATCHED_HOURS = """
SELECT at - at % $4, SUM(watched_pct) FROM liquidation_hours
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1
"""
_FIRST_READING = """
SELECT at FROM readings WHERE venue = $1 AND resolution = $2 AND contract = $3 ORDER BY at LIMIT 1
"""
_RATE = """
SELECT funding_rate_pct, funding_interval_hours, origin FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND at = $3
"""
_NEWEST_HOUR = """
SELECT at FROM liquidation_hours WHERE venue = $1 AND at <= $2 ORDER BY at DESC LIMIT 1
"""
_FIRST_SPAN = "SELECT start_at FROM watched_spans WHERE venue = $1 ORDER BY start_at LIMIT 1"
_FIRST_WATCHED_HOUR = """
SELECT at FROM liquidation_hours WHERE venue = $1 AND watched_pct > 0 ORDER BY at LIMIT 1
"""
_CONTRACT_EVENTS = """
SELECT at - at % $5, side, SUM(size * price) FROM liquidations
WHERE venue = $1 AND contract = $2 AND at >= $3 AND at < $4 GROUP BY 1, 2
"""
_COLUMNS = """
SELECT at - at % $4, SUM(long_usd), SUM(short_usd), SUM(watched_pct) FROM liquidation_hours
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1 ORDER BY 1
"""
_REGIME = """
SELECT label FROM regime_changes WHERE venue = $1 AND at <= $2 ORDER BY at DESC LIMIT 1
"""

"""Reads recorded series for charts and downloads."""

from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, TypeVar, cast

from barograph.errors import NotFound
from barograph.kit.caches import MinuteCache, SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Statement, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.aggregates import (
    Sample,
    TotalPoint,
    TotalSeries,
    covering,
    total_points,
)
from barograph.markets.frames import NEAR, nearest
from barograph.markets.last_known import KEPT_FOR
from barograph.markets.liquidation_store import (
    liquidated_hour,
    liquidation_series,
    past_hours,
)
from barograph.markets.listings import listings_of, recorded_coins
from barograph.markets.samples import (
    CHARTED,
    FINE_STEP,
    GRACE,
    NOT_RECORDED,
    STEPS,
    LiquidatedHour,
    LiquidatedHours,
    LiquidationSeries,
    Measure,
    PastRegime,
    Point,
    RecordedListing,
    Series,
    on_grid,
)
from barograph.markets.store import DISPUTED, Resolution, frames_between, undisputed
from barograph.markets.symbols import (
    UNKNOWN_SYMBOL,
    ContractIndex,
    find_contract,
    require_name,
    upper,
)
from barograph.venues.records import ContractName, Frame, Origin, Perpetuals, eight_hour_rate
from barograph.venues.registry import VENUES

T = TypeVar("T")

KEPT_SERIES = 128
WEEK_STEP = 4 * HOUR
WeekOfPrices = tuple[float | None, ...]
"""43 prices, one every four hours, oldest first; None where nothing was recorded."""

WeekOfValues = WeekOfPrices
"""The same of any measure."""

_Work = Callable[[Transaction, int], Coroutine[Any, Any, T]]


class SeriesReader:
    """Reads series from the database, each at most once per minute, which is its finest step."""

    def __init__(
        self, database: Database, clock: Clock, min_watched_pct: float, venues: Sequence[str]
    ) -> None:
        self.venues = venues
        self.venue = venues[0]
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

    async def totals(self, asset: str, measure: Measure, days: int) -> TotalSeries:
        """One of `TOTALS` of a coin at all configured venues; raises as `reading` does."""
        return await self.once(
            ("totals", asset, measure, days),
            lambda tx, now: reading_totals(tx, asset, measure, days, self.venues, now=now),
        )

    async def listings(self, asset: str) -> list[RecordedListing]:
        """When the configured venues listed a coin; raises as `reading` does."""
        return await self.once(
            ("listings", asset), lambda tx, _: listings_of(tx, asset, self.venues)
        )

    async def recorded_coins(self) -> Mapping[str, str]:
        """Every coin that a configured venue ever listed, by its names; raises as `reading`."""
        return await self.once("coins", lambda tx, _: recorded_coins(tx, self.venues))

    async def liquidations(self, days: int, until: float = inf) -> LiquidationSeries:
        """Liquidations of all contracts over one of `DAYS`, as `reading`."""
        return await self.once(
            ("liquidations", days, until),
            lambda tx, now: liquidation_series(
                tx, self.venue, days, int(min(now, until)), self.min_watched_pct
            ),
        )

    async def past_hours(self, venue: str) -> list[LiquidatedHours]:
        """What a venue liquidated in each of `PAST_HOURS`; raises as `reading` does."""
        return await self.once(
            ("past hours", venue), lambda tx, minute: past_hours(tx, venue, minute)
        )

    async def regimes(self, name: ContractName, days_ago: Sequence[int]) -> list[PastRegime]:
        """The regime on each past day, with the rate of a contract; raises as `reading` does."""
        return await self.once(
            ("regimes", name, *days_ago),
            lambda tx, minute: regimes_at(tx, *name, [minute - days * DAY for days in days_ago]),
        )

    async def week(self, venue: str) -> Mapping[str, WeekOfPrices]:
        """The prices of the last week of every contract of a venue; raises as `reading` does.

        They are read once per ten minutes, and the same mapping is returned until then.
        """
        return await self._hourly(venue, lambda tx, hour: weeks_of_prices(tx, venue, hour))

    async def week_ago(self, reading: Perpetuals) -> Frame:
        """What changes of 7 days compare with; raises as `reading` does."""
        return await self.past_frame(reading, 7 * DAY)

    async def past_frame(self, reading: Perpetuals, ago: int) -> Frame:
        """What changes since some time before a reading compare with; raises as `reading` does."""
        venue, at = reading.venue, reading.as_of // MINUTE * MINUTE - ago
        frames = await self.once(
            ("past frame", venue, at),
            lambda tx, _: frames_between(tx, venue, at - NEAR, at + NEAR + MINUTE),
        )
        return nearest(frames, reading.as_of - ago)

    async def week_of(self, name: ContractName) -> Mapping[Measure, WeekOfValues]:
        """The charted measures of one contract in the last week, as `week`."""
        return await self._hourly(name, lambda tx, hour: week_of_measures(tx, name, hour))

    async def liquidated_hour(self) -> LiquidatedHour:
        """Liquidations of the last hour by contract; raises as `reading` does."""
        return await self.once(
            "liquidated hour", lambda tx, minute: liquidated_hour(tx, self.venue, minute)
        )

    async def _hourly(self, key: Hashable, work: _Work[T]) -> T:
        """Read once per ten minutes and key: new and back-filled hours come late."""
        period = self._kept.minute // (10 * MINUTE)
        known = self._weeks.get(key)
        if known is None or known[0] != period:
            hour = self._kept.minute // HOUR * HOUR
            known = self._weeks[key] = period, await self._read(("week", key, period), hour, work)
        return cast("T", known[1])

    async def once(self, key: Hashable, work: _Work[T]) -> T:
        """Read once per minute and key, for every caller; raises as `reading` does."""
        kept, minute = self._kept.get(key), self._kept.minute
        if kept is None:
            kept = await self._read((key, minute), minute, work)
            self._kept.put(key, minute, kept)
        return cast("T", kept)

    async def _read(self, key: Hashable, at: int, work: _Work[T]) -> object:
        async def read() -> object:
            return await self._database.read(lambda tx: work(tx, at))

        return await self._reading.do(key, read)


async def weeks_of_prices(tx: Transaction, venue: str, hour: int) -> dict[str, WeekOfPrices]:
    """The prices of every contract on the grid of the week that ends in this hour."""
    first = hour - 7 * DAY
    weeks: dict[str, list[float | None]] = {}
    for contract, at, price in await tx.fetch(_WEEK, venue, first, hour, WEEK_STEP):
        week = weeks.setdefault(contract, [None] * (7 * DAY // WEEK_STEP + 1))
        week[(at - first) // WEEK_STEP] = price
    return {contract: tuple(prices) for contract, prices in weeks.items()}


async def week_of_measures(
    tx: Transaction, name: ContractName, hour: int
) -> dict[Measure, WeekOfValues]:
    """The charted measures of one contract on the grid of the week that ends in this hour."""
    newest = hour // WEEK_STEP * WEEK_STEP
    grid = range(newest - 7 * DAY, newest + 1, WEEK_STEP)
    week = {}
    for measure in CHARTED:
        points = await recorded_points(tx, "hour", name, measure, grid)
        fair = {at: point.value for at, point in points.items() if not point.is_disputed}
        week[measure] = tuple(fair.get(at) for at in grid)
    return week


async def reading_series(
    tx: Transaction, name: ContractName, measure: Measure, days: int, now: int
) -> Series:
    """One measure of one contract over the last `days`, which must be one of `DAYS`.

    One day uses readings by the minute if they cover about as much of it as the hourly ones: only
    some contracts have them, and a new record has few. Back-filled hours have no minutes, but after
    a short outage at a full hour one of them must not hide the minutes of the day.
    """
    step = STEPS[days]
    start = now // step * step - days * DAY
    points = await recorded_points(tx, "hour", name, measure, range(start, now + 1, step))
    if days == 1 and sum(point.is_backfilled for point in points.values()) <= 1:
        fine = range(now // FINE_STEP * FINE_STEP - DAY, now + 1, FINE_STEP)
        minutes = await recorded_points(tx, "minute", name, measure, fine)
        if minutes and 2 * len(minutes) * FINE_STEP >= len(points) * HOUR:
            step, points = FINE_STEP, minutes
    shown = on_grid(points, days, step, now)
    return Series(name.contract, measure, days, step, now, shown, name.venue)


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
    rate = await _RATE.first(tx, venue, contract, hour)
    if rate is None:
        return NOT_RECORDED
    if rate.origin == "backfilled":
        return PastRegime(None, rate.funding_8h_pct, hour, is_backfilled=True)
    labels = [label for (label,) in await tx.fetch(_REGIME, venue, instant)]
    return PastRegime(labels[0] if labels else None, rate.funding_8h_pct, hour)


async def first_reading(
    tx: Transaction, venue: str, resolution: Resolution, contract: str
) -> int | None:
    """When the first reading of a contract was recorded."""
    for (at,) in await tx.fetch(_FIRST_READING, venue, resolution, contract):
        return int(at)
    return None


async def recorded_points(
    tx: Transaction, resolution: Resolution, name: ContractName, measure: Measure, grid: range
) -> dict[int, Point]:
    """The recorded points at the instants of a grid, whose start is a multiple of its step."""
    key = (name.venue, resolution, name.contract)
    column = _COLUMN[measure]
    sql = _READINGS.format(column=column, disputed=DISPUTED.get(column, DISPUTED["last_price"]))
    points = {}
    for at, value, hours, origin, disputed in await tx.fetch(
        sql, *key, grid.start, grid.stop, grid.step
    ):
        is_rate = measure == "funding" and value is not None
        shown = eight_hour_rate(value, hours) if is_rate else value
        is_backfilled = shown is not None and origin == "backfilled"
        points[at] = Point(at, shown, is_backfilled, shown is not None and bool(disputed))
    return points


async def reading_totals(
    tx: Transaction, asset: str, measure: Measure, days: int, venues: Collection[str], *, now: int
) -> TotalSeries:
    """A measure of one coin at all venues that cover the last `days`, one of `DAYS`."""
    listings = await listings_of(tx, asset, venues)
    step: int = STEPS[days]
    grid = range(now // step * step - days * DAY, now + 1, step)
    if days == 1:
        fine = range(now // FINE_STEP * FINE_STEP - DAY, now + 1, FINE_STEP)
        points = await recorded_totals(tx, "minute", measure, listings, fine, now=now)
        if 2 * sum(point.value is not None for point in points) >= len(points):
            step, grid = FINE_STEP, fine
    resolution: Resolution = "minute" if step == FINE_STEP else "hour"
    points = await recorded_totals(tx, resolution, measure, listings, grid, now=now)
    known = covering(points)
    left_out = sorted({each.venue for each in listings}.difference(known))
    if left_out:
        listings = [each for each in listings if each.venue in known]
        points = await recorded_totals(tx, resolution, measure, listings, grid, now=now)
    return TotalSeries(asset, measure, days, step, now, points, known, left_out)


async def recorded_totals(
    tx: Transaction,
    resolution: Resolution,
    measure: Measure,
    listings: Sequence[RecordedListing],
    grid: range,
    *,
    now: int,
) -> list[TotalPoint]:
    """A measure of a coin at the venues that listed it, at the instants of a grid.

    A venue that we no longer read counts as missing only as long as its last values are known.
    """
    if not listings or not grid:
        return []
    newest = await tx.fetch(_LAST, listings[0].asset)
    ends = {row[:2]: row[2] + KEPT_FOR for row in newest if row[2] is not None}
    listings = [
        each if each.delisted_at else each._replace(delisted_at=ends.get(each.name))
        for each in listings
    ]
    names = {each.name for each in listings}

    async def samples(start: int, end: int) -> list[Sample]:
        wanted = range(start, end, grid.step)
        found = await recorded_samples(tx, resolution, measure, listings[0].asset, wanted)
        return [each for each in found if each.name in names]

    found = await samples(grid.start, grid.stop)
    if names - {each.name for each in found if each.at == grid.start}:
        found += await samples(grid.start - KEPT_FOR // grid.step * grid.step, grid.start)
    points = total_points(measure, found, listings, grid)
    if points[-1].missing and now - points[-1].at < GRACE:
        points.pop()  # late, which is not missing yet
    return points


async def recorded_samples(
    tx: Transaction, resolution: Resolution, measure: Measure, asset: str, grid: range
) -> list[Sample]:
    """A measure of a coin at every venue that ever listed it, whose start fits the step."""
    value, disputed = _TOTALLED[measure]
    sql = _TOTALS.format(value=value, disputed=disputed, weight=undisputed("open_interest_usd"))
    rows = await tx.fetch(sql, asset, resolution, grid.start, grid.stop, grid.step)
    return [Sample(ContractName(*row[:2]), *row[2:]) for row in rows]


async def recorded_contract(
    queryable: Queryable, venue: str, listed: ContractIndex, text: str
) -> str:
    """The full name of the contract that a request names, even if it is no longer listed.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none that we know.
    """
    contract = find_contract(listed, require_name(text))
    if contract is not None:
        return contract.contract
    for name in dict.fromkeys((text, upper(text), VENUES[venue].contract(upper(text)))):
        if await queryable.fetch(_RECORDED, venue, name):
            return name
    raise NotFound(UNKNOWN_SYMBOL)


class _Rate(NamedTuple):
    funding_rate_pct: float | None
    funding_interval_hours: float
    origin: Origin

    @property
    def funding_8h_pct(self) -> float | None:
        rate_pct = self.funding_rate_pct
        return None if rate_pct is None else eight_hour_rate(rate_pct, self.funding_interval_hours)


_READINGS = """
SELECT at, {column}, funding_interval_hours, origin, {disputed} FROM readings
WHERE venue = $1 AND resolution = $2 AND contract = $3 AND at >= $4 AND at < $5 AND at % $6 = 0
ORDER BY at
"""
_COLUMN: dict[Measure, str] = {
    "price": "last_price",
    "funding": "funding_rate_pct",
    "open-interest": "open_interest_usd",
    "open-interest-coins": "open_interest_coins",
    "volume": "volume_24h_usd",
    "volume-coins": "volume_24h_coins",
    "index-price": "index_price",
    "basis": "100 * (mark_price - index_price) / index_price",
    "long-accounts": "long_account_pct",
}
_TOTALS = """
SELECT readings.venue, readings.contract, at, COALESCE(mark_price, last_price) / multiplier,
    {value}, {weight}, {disputed}, origin = 'backfilled'
FROM (SELECT DISTINCT venue, contract, multiplier FROM listings WHERE asset = $1) AS listed
CROSS JOIN readings
WHERE readings.venue = listed.venue AND readings.contract = listed.contract
    AND resolution = $2 AND at >= $3 AND at < $4 AND at % $5 = 0
"""
_LAST = """
SELECT venue, contract, (
    SELECT max(at) FROM readings
    WHERE readings.venue = listings.venue AND readings.contract = listings.contract
        AND resolution = 'hour')
FROM listings WHERE asset = $1 AND delisted_at IS NULL
"""
"""When each listed contract was last read."""

_IN_USD = DISPUTED["open_interest_usd"]
_TOTALLED: dict[Measure, tuple[str, str]] = {
    "price": ("COALESCE(mark_price, last_price) / multiplier", DISPUTED["last_price"]),
    "funding": (
        "CASE WHEN open_interest_usd > 0 THEN funding_rate_pct * 8 / funding_interval_hours END",
        f"{DISPUTED['funding_rate_pct']} OR {_IN_USD}",
    ),
    "open-interest": ("open_interest_usd", _IN_USD),
    "open-interest-coins": ("open_interest_coins * multiplier", _IN_USD),
    "volume": ("volume_24h_usd", DISPUTED["last_price"]),
    "volume-coins": ("volume_24h_coins * multiplier", DISPUTED["last_price"]),
}
"""By the measure, SQL for its value in single coins, and for whether that was disputed."""

_WEEK = """
WITH RECURSIVE grid(at) AS (
    SELECT CAST($2 AS BIGINT) UNION ALL SELECT at + $4 FROM grid WHERE at < $3
)
SELECT contract, readings.at, last_price
FROM grid CROSS JOIN readings
WHERE resolution = 'hour' AND readings.at = grid.at AND venue = $1
    AND disputed NOT LIKE '%price%'
"""
"""SQLite keeps the order of a cross join; otherwise it would read every hour of the venue."""

_FIRST_READING = """
SELECT at FROM readings WHERE venue = $1 AND resolution = $2 AND contract = $3 ORDER BY at LIMIT 1
"""
_RATE = Statement(
    _Rate,
    """
SELECT {columns} FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND at = $3
    AND disputed NOT LIKE '%funding%'
""",
)
_REGIME = """
SELECT label FROM regime_changes WHERE venue = $1 AND at <= $2 ORDER BY at DESC LIMIT 1
"""
_RECORDED = """
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM readings WHERE venue = $1 AND resolution = 'hour' AND contract = $2)
OR EXISTS (SELECT 1 FROM liquidations WHERE venue = $1 AND contract = $2)
"""

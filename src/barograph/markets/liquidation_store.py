"""Reads recorded liquidations: single ones, sums by contract or time, and the time we watched."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from operator import add
from typing import Any, NamedTuple

from barograph.kit.database import Queryable, Statement, Transaction
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.liquidations import watched_time
from barograph.markets.samples import (
    PAST_HOURS,
    LiquidatedHour,
    LiquidatedHours,
    LiquidationColumn,
    LiquidationSeries,
    column_starts,
    known_until,
)
from barograph.markets.store import disputed_sides, recent_watched
from barograph.venues.spans import Span, WatchedSpans, watched_share


class LiquidationRow(NamedTuple):
    """One liquidation. No two are equal, so the fields are also its place in the order."""

    at: int
    contract: str = ""
    side: str = ""
    size: float = 0.0
    price: float = 0.0


class KnownLiquidations(NamedTuple):
    """Up to when liquidations are known, and up to when whole hours are summed up."""

    until: int
    summed_until: int | None
    watch: WatchedSpans
    """Of the last day."""


class _Liquidated(NamedTuple):
    """What was liquidated in some time, and how much of it we watched."""

    long_usd: float
    short_usd: float
    watched: int


async def liquidations_after(
    queryable: Queryable,
    venue: str,
    place: LiquidationRow,
    end: int,
    limit: int,
    *,
    contract: str | None = None,
    side: str | None = None,
) -> list[LiquidationRow]:
    """The first liquidations after a place in the order and before `end`."""
    given = _given(contract, side)
    statement = _filtered(_AFTER, 9, *given)
    return await statement.fetch(queryable, venue, end, *place, limit, *given.values())


def _given(contract: str | None, side: str | None) -> dict[str, str]:
    # No index begins with the side: as an expression it doesn't mislead SQLite's planner.
    filters = {"contract": contract, "side || ''": side}
    return {column: value for column, value in filters.items() if value is not None}


@cache
def _filtered(text: str, first: int, *columns: str) -> Statement[LiquidationRow]:
    filters = "".join(f" AND {column} = ${place}" for place, column in enumerate(columns, first))
    return Statement(LiquidationRow, text.replace("{filters}", filters))


async def watched_between(
    queryable: Queryable, venue: str, start: int, end: int, kept_from: int = 0
) -> list[Span]:
    """The watched parts of a span, merged.

    Spans outlive the liquidations in them, which are kept from `kept_from` on. Nothing before it
    counts as watched: a deleted liquidation would look like none.
    """
    start = max(start, min(kept_from, end))
    rows = await queryable.fetch(_SPANS, venue, end, start)
    return WatchedSpans((first, last) for first, last in rows).within(start, end)


async def sums_by_contract(
    tx: Transaction, venue: str, start: int, end: int
) -> dict[str, tuple[float, float]]:
    """Liquidated longs and shorts in USD, by the contract's full name."""
    rows = await tx.fetch(_BY_CONTRACT, venue, start, end)
    return {contract: (longs, shorts) for contract, longs, shorts in rows}


async def known_liquidations(tx: Transaction, venue: str, now: int) -> KnownLiquidations:
    """Up to when liquidations are known: the newest recorded minute."""
    watch = WatchedSpans(await recent_watched(tx, venue, now))
    summed_until = await _summed_until(tx, venue, now)
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


async def past_hours(tx: Transaction, venue: str, now: int) -> list[LiquidatedHours]:
    """The last hours up to the newest recorded minute, from single liquidations."""
    known = await known_liquidations(tx, venue, now)
    until, starts = known.until, [known.until - each * HOUR for each in PAST_HOURS]
    rows = await tx.fetch(_BY_AGE, venue, starts[-1], until, *starts[:-1])
    disputed = WatchedSpans(await disputed_sides(tx, venue, starts[-1], until))
    return [
        LiquidatedHours(
            venue,
            until,
            count,
            until - start - known.watch.time_within(start, until),
            _since(rows, place),
            is_disputed=bool(disputed.within(start, until)),
        )
        for place, (count, start) in enumerate(zip(PAST_HOURS, starts, strict=True))
    ]


def _since(rows: Iterable[Sequence[Any]], place: int) -> dict[str, tuple[float, float]]:
    """The sums of each contract since the start of one of the spans."""
    sums: dict[str, tuple[float, float]] = {}
    for contract, age, longs, shorts in rows:
        if age <= place:
            before = sums.get(contract, (0.0, 0.0))
            sums[contract] = before[0] + longs, before[1] + shorts
    return sums


async def newest_liquidations(
    queryable: Queryable,
    venue: str,
    since: int,
    limit: int,
    *,
    least_usd: float = 0.0,
    contract: str | None = None,
    side: str | None = None,
) -> list[LiquidationRow]:
    """The newest liquidations since an instant of at least a size, newest first."""
    given = _given(contract, side)
    statement = _filtered(_NEWEST, 5, *given)
    return await statement.fetch(queryable, venue, since, least_usd, limit, *given.values())


async def liquidation_columns(
    tx: Transaction, venue: str, known: KnownLiquidations, starts: range, min_watched_pct: float
) -> tuple[LiquidationColumn, ...]:
    """Liquidations of all contracts in columns, each as long as the step of their starts.

    Hours are summed up a little after they end; until then we sum single liquidations.
    """
    length = starts.step
    rows = await tx.fetch(_COLUMNS, venue, starts[0], starts[-1] + length, length)
    sums = {
        at: _Liquidated(longs, shorts, watched_time(watched_pct))
        for at, longs, shorts, watched_pct in rows
    }
    for hour in _open_hours(known):
        at = hour // length * length
        counted = await _counted(tx, venue, known, hour)
        sums[at] = _Liquidated(*map(add, sums.get(at, _Liquidated(0.0, 0.0, 0)), counted))
    disputed = WatchedSpans(await disputed_sides(tx, venue, starts[0], starts[-1] + length))
    columns = (_column(at, sums.get(at), length, min_watched_pct, known.until) for at in starts)
    return tuple(_marked(each, length, disputed) for each in columns)


async def contract_liquidations(
    tx: Transaction, venue: str, contracts: Iterable[str], kept: Span, starts: range
) -> tuple[LiquidationColumn, ...]:
    """Liquidations of some contracts in columns, from single ones, which we have for the span."""
    kept_from, until = kept
    length, end = starts.step, min(starts[-1] + starts.step, until)
    watch = WatchedSpans(await watched_between(tx, venue, starts[0], end, kept_from))
    sums: dict[tuple[int, str], float] = defaultdict(float)
    for contract in contracts:
        for at, side, usd in await tx.fetch(
            _CONTRACT_EVENTS, venue, contract, starts[0], end, length
        ):
            sums[at, side] += usd
    columns = []
    for at in starts:
        watched = watch.time_within(at, min(at + length, until))
        counted = _Liquidated(sums[at, "long"], sums[at, "short"], watched)
        columns.append(_column(at, counted, length, 0.0, until))
    disputed = WatchedSpans(await disputed_sides(tx, venue, starts[0], end))
    return tuple(_marked(each, length, disputed) for each in columns)


async def liquidated_hour(tx: Transaction, venue: str, now: int) -> LiquidatedHour:
    """The hour up to the newest recorded minute, from single liquidations."""
    until, _, watch = await known_liquidations(tx, venue, now)
    sums = await sums_by_contract(tx, venue, until - HOUR, until)
    is_disputed = bool(await disputed_sides(tx, venue, until - HOUR, until))
    return LiquidatedHour(until, watch.pct_within(until - HOUR, until), sums, is_disputed)


async def watched_since(tx: Transaction, venue: str) -> int | None:
    """When we first watched. The stored hours may be older than the stored spans."""
    rows = [*await tx.fetch(_FIRST_SPAN, venue), *await tx.fetch(_FIRST_WATCHED_HOUR, venue)]
    return min((at for (at,) in rows), default=None)


async def watched_shares(tx: Transaction, venue: str, grid: range, now: int) -> dict[int, float]:
    """The watched share of the time so far of each interval of a grid that has begun.

    It is the same as that of the liquidations. Hours are stored with their share a little after
    they end; until then, and for minutes, we sum the spans.
    """
    known = await known_liquidations(tx, venue, now)
    step, since, end = grid.step, grid.start, min(grid[-1] + grid.step, known.until)
    watched: Counter[int] = Counter()
    if step >= HOUR:
        for at, pct in await tx.fetch(_WATCHED_HOURS, venue, since, end, step):
            watched[at] = watched_time(pct)
        since = max(since, known.summed_until or 0)
    for start, stop in await watched_between(tx, venue, since, end) if since < end else ():
        for at in range(start - start % step, stop, step):
            watched[at] += min(stop, at + step) - max(start, at)
    begun = range(grid.start, end, step)
    return {at: watched_share(watched[at], min(step, known.until - at)) for at in begun}


async def _summed_until(tx: Transaction, venue: str, now: int) -> int | None:
    for (at,) in await tx.fetch(_NEWEST_HOUR, venue, now):
        return int(at) + HOUR
    return None


def _open_hours(known: KnownLiquidations) -> list[int]:
    """The hours of the last day that are not summed up yet, and that we watched."""
    running = (known.until - 1) // HOUR * HOUR
    first = max(known.summed_until or 0, running - DAY + HOUR)
    hours = range(first, running + 1, HOUR)
    return [hour for hour in hours if known.watch.time_within(hour, min(hour + HOUR, known.until))]


async def _counted(tx: Transaction, venue: str, known: KnownLiquidations, hour: int) -> _Liquidated:
    end = min(hour + HOUR, known.until)
    sums = await sums_by_contract(tx, venue, hour, end)
    longs, shorts = (sum(sides) for sides in zip((0.0, 0.0), *sums.values(), strict=True))
    return _Liquidated(longs, shorts, known.watch.time_within(hour, end))


def _column(
    at: int, counted: _Liquidated | None, length: int, min_watched_pct: float, until: int
) -> LiquidationColumn:
    if counted is None or not counted.watched:
        return LiquidationColumn(at, None, None, 0.0, partial=True)
    passed = min(length, until - at)
    watched_pct = watched_share(counted.watched, passed)
    partial = watched_pct < min_watched_pct or passed < length
    longs, shorts = round(counted.long_usd, 2), round(counted.short_usd, 2)
    return LiquidationColumn(at, longs, shorts, watched_pct, partial)


def _marked(column: LiquidationColumn, length: int, disputed: WatchedSpans) -> LiquidationColumn:
    is_disputed = column.long_usd is not None and disputed.within(column.at, column.at + length)
    return column._replace(is_disputed=bool(is_disputed))


# `at >= $3` repeats what the comparison of rows says, in a form that both indexes serve.
_AFTER = """
SELECT {columns} FROM liquidations
WHERE venue = $1 AND at < $2 AND at >= $3
    AND (at, contract, side, size, price) > ($3, $4, $5, $6, $7){filters}
ORDER BY at, contract, side, size, price LIMIT $8
"""
_SPANS = """
SELECT start_at, end_at FROM watched_spans WHERE venue = $1 AND start_at < $2 AND end_at > $3
"""
# As an expression, the contract doesn't mislead SQLite's planner to the index that begins with it.
_BY_CONTRACT = """
SELECT contract || '', SUM(CASE side WHEN 'long' THEN size * price ELSE 0.0 END),
    SUM(CASE side WHEN 'short' THEN size * price ELSE 0.0 END) FROM liquidations
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1
"""
# The age is the place of the shortest span that has it.
_BY_AGE = """
SELECT contract || '',
    CASE WHEN at >= $4 THEN 0 WHEN at >= $5 THEN 1 WHEN at >= $6 THEN 2 ELSE 3 END,
    SUM(CASE side WHEN 'long' THEN size * price ELSE 0.0 END),
    SUM(CASE side WHEN 'short' THEN size * price ELSE 0.0 END) FROM liquidations
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1, 2
"""
_NEWEST = """
SELECT {columns} FROM liquidations
WHERE venue = $1 AND at >= $2 AND size * price >= $3{filters}
ORDER BY at DESC, contract DESC, side DESC, size DESC, price DESC LIMIT $4
"""
_WATCHED_HOURS = """
SELECT at - at % $4, SUM(watched_pct) FROM liquidation_hours
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1
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

"""Reads recorded series by pages: each page reads only its own range of keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from barograph.errors import InvalidRequest
from barograph.kit.database import Transaction
from barograph.kit.lists import instant
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.macro.records import source_with_notice
from barograph.macro.store import figures_between
from barograph.markets.aggregates import (
    ALL,
    TOTALS,
    TotalPoint,
    summed_liquidations,
)
from barograph.markets.liquidation_store import (
    contract_liquidations,
    known_liquidations,
    liquidation_columns,
    watched_shares,
    watched_since,
)
from barograph.markets.listings import listings_named
from barograph.markets.samples import (
    GRACE,
    MEASURES,
    LiquidationColumn,
    Measure,
    Point,
)
from barograph.markets.series import (
    first_reading,
    recorded_contract,
    recorded_points,
    recorded_totals,
)
from barograph.markets.settlements import LATE_REPORT, SettledFunding, known_settlements
from barograph.markets.store import Resolution, settled_rates
from barograph.markets.symbols import ContractIndex, symbol_from
from barograph.series.query import SeriesQuery
from barograph.venues.records import MAJORS, ContractName, eight_hour_rate
from barograph.venues.registry import VENUES

MAX_SUMMED = 7 * DAY
"""The longest time on one page for which single liquidations are summed up."""

_UNWATCHED = {"venue": "", "reason": "not watched", "last": None, "last_as_of": None}

SeriesRow = tuple[Any, ...]
"""A point: time, value, origin, share watched, and the extra members of its measure."""


class SeriesPage(NamedTuple):
    """Points, oldest first, and where the next page begins; None after the last."""

    rows: Sequence[SeriesRow] = ()
    following: int | None = None
    symbol: str | None = None
    as_of: int | None = None
    """Up to when the record is known, if this read tells."""

    source: str | None = None
    """If it is not the exchange."""


async def read_page(
    tx: Transaction, query: SeriesQuery, contracts: ContractIndex, now: int
) -> SeriesPage:
    """Read the page of a query.

    Raises:
        NotFound: the symbol is unknown, or has no such record.
        InvalidRequest: the symbol is malformed, or has no readings by the minute.
    """
    if query.measure in _CHANGES:
        return await _changes(tx, query)
    if "symbol" not in query.rules.parameters:
        return await _figures(tx, query)
    if query.venue == ALL:
        is_flow = query.measure == "liquidations"
        return await (_liquidations(tx, query, None, now) if is_flow else _totals(tx, query, now))
    if query.symbol is None:
        return await _liquidations(tx, query, None, now)
    contract = await recorded_contract(tx, query.venue, contracts, query.symbol)
    if query.measure == "liquidations":
        page = await _liquidations(tx, query, contract, now)
    elif query.measure in MEASURES:
        page = await _readings(tx, query, contract, now)
    else:
        page = await _settlements(tx, query, contract, now)
    return page._replace(symbol=symbol_from(query.venue, contract))


def _grid(start: int, end: int, step: int, limit: int) -> tuple[range, int | None]:
    """The instants of a page, and the first one of the next page."""
    start = -(-start // step) * step
    stop = min(end, start + limit * step)
    return range(start, max(start, stop), step), stop if start < stop < end else None


async def _readings(tx: Transaction, query: SeriesQuery, contract: str, now: int) -> SeriesPage:
    resolution, venue = _resolution(query, symbol_from(query.venue, contract)), query.venue
    first = await first_reading(tx, venue, resolution, contract)
    if first is None:
        return SeriesPage()
    # Begin with the first record, so that nobody follows pages without a value.
    start = max(query.start, first)
    grid, following = _grid(start, query.span.end, query.step, query.limit)
    measure = cast("Measure", query.measure)
    found = await recorded_points(tx, resolution, ContractName(venue, contract), measure, grid)
    points = [found.get(at, Point(at, None)) for at in grid]
    if following is None and points and points[-1].value is None and now - points[-1].at < GRACE:
        points.pop()  # late, which is not a gap yet
    has_stream = VENUES[venue].liquidations != "none"  # otherwise no connections are recorded
    shares = await watched_shares(tx, venue, grid, now) if grid and has_stream else {}
    return SeriesPage([_reading_row(each, shares.get(each.at)) for each in points], following)


def _resolution(query: SeriesQuery, symbol: str) -> Resolution:
    if query.step != MINUTE:
        return "hour"
    if symbol in MAJORS:
        return "minute"
    raise InvalidRequest(f"interval=minute is recorded for {', '.join(MAJORS)}; use interval=hour")


async def _totals(tx: Transaction, query: SeriesQuery, now: int) -> SeriesPage:
    listings = await listings_named(tx, query.symbol or "", query.venues)
    asset = listings[0].asset
    resolution = _resolution(query, asset)
    start = max(query.start, min(each.listed_at for each in listings))
    grid, following = _grid(start, query.span.end, query.step, query.limit)
    measure = cast("Measure", query.measure)
    points = await recorded_totals(tx, resolution, measure, listings, grid, now=now)
    return SeriesPage([_total_row(measure, each) for each in points], following, asset)


def _total_row(measure: Measure, point: TotalPoint) -> SeriesRow:
    digits = 2 if TOTALS[measure].unit == "USD" else 10

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, digits)

    known = "backfilled" if point.is_backfilled else "measured"
    prices = point.by_venue.values()
    return (
        *(iso_timestamp(point.at), rounded(point.value)),
        *(None if point.value is None else known, None, rounded(point.with_missing)),
        [*point.by_venue],
        [
            {
                "venue": each.venue,
                "reason": each.reason,
                "last": rounded(each.last),
                "last_as_of": None if each.last_at is None else iso_timestamp(each.last_at),
            }
            for each in point.missing
        ],
        [*map(rounded, prices)],
        *(
            (rounded(min(prices, default=None)), rounded(max(prices, default=None)), point.largest)
            if measure == "price"
            else ()
        ),
    )


def _reading_row(point: Point, watched_pct: float | None) -> SeriesRow:
    """A reading at the start of an interval, and the share of it that we watched, if known."""
    known = "backfilled" if point.is_backfilled else "measured"
    origin = None if point.value is None else known
    at, watched = iso_timestamp(point.at), _share(watched_pct)
    return (at, point.value, origin, watched, point.is_disputed)


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 4)


async def _liquidations(
    tx: Transaction, query: SeriesQuery, contract: str | None, now: int
) -> SeriesPage:
    """Of a contract, of a coin at all venues, or of everything if neither is given."""
    listings, publishing = [], [query.venue]
    if query.venue == ALL:
        publishing = [each for each in query.venues if VENUES[each].liquidations != "none"]
        if query.symbol is not None:
            listings = await listings_named(tx, query.symbol, query.venues)
    known = {venue: await known_liquidations(tx, venue, now) for venue in publishing}
    until = min((each.until for each in known.values()), default=now)
    since = [at for venue in known if (at := await watched_since(tx, venue)) is not None]
    step, end = query.step, min(query.span.end, until)
    limit = query.limit if query.symbol is None else min(query.limit, MAX_SUMMED // step)
    start = max(query.start, min((at // step * step for at in since), default=end))
    grid, following = _grid(start, end, step, limit)
    if not grid:
        return SeriesPage(as_of=until)
    columns, kept = {}, (query.kept_from, until)
    for venue, each in known.items():
        names = {one.contract for one in listings if one.venue == venue} or {contract or ""}
        columns[venue] = (
            await liquidation_columns(tx, venue, each._replace(until=until), grid, 0.0)
            if query.symbol is None
            else await contract_liquidations(tx, venue, names, kept, grid)
        )
    if query.venue != ALL:
        rows = [_liquidation_row(each) for each in columns[query.venue]]
        return SeriesPage(rows, following, as_of=until)
    # The totals of prices tell who listed the coin then, and who another one of its name.
    begun = [each._replace(listed_at=each.listed_at // step * step) for each in listings]
    prices = await recorded_totals(tx, "hour", "price", begun, grid, now=now + GRACE)
    listed = {each.at: {*each.by_venue, *(one.venue for one in each.missing)} for each in prices}
    rows = [
        _all_row(
            at, {name: columns[name][i] for name in columns if name in listed.get(at, columns)}
        )
        for i, at in enumerate(grid)
    ]
    symbol = listings[0].asset if listings else None
    return SeriesPage(rows, following, symbol, as_of=until)


def _all_row(at: int, columns: Mapping[str, LiquidationColumn]) -> SeriesRow:
    rows = {venue: _liquidation_row(each) for venue, each in columns.items()}
    inside = {venue: row[1] for venue, row in rows.items() if row[1] is not None}
    missing = [each for each in rows if each not in inside]
    return (
        *_liquidation_row(summed_liquidations(at, columns.values())),
        [*inside],
        [{**_UNWATCHED, "venue": venue} for venue in missing],
        [*inside.values()],
        [VENUES[venue].liquidations for venue in inside],
    )


def _liquidation_row(column: LiquidationColumn) -> SeriesRow:
    at = iso_timestamp(column.at)
    if column.long_usd is None or column.short_usd is None:
        return (at, None, None, 0.0, None, None, False)
    total, watched = round(column.long_usd + column.short_usd, 2), _share(column.watched_pct)
    sides = (column.long_usd, column.short_usd, column.is_disputed)
    return (at, total, "measured", watched, *sides)


async def _settlements(tx: Transaction, query: SeriesQuery, contract: str, now: int) -> SeriesPage:
    # The settlements around a page tell the intervals of its first and its last.
    start, end = query.start - LATE_REPORT, query.span.end + LATE_REPORT
    count = query.limit + 2 * LATE_REPORT // HOUR + 1
    reports = await settled_rates(tx, ContractName(query.venue, contract), start, end, count)
    stop = min(query.span.end, reports[-1].at) if len(reports) == count else query.span.end
    settlements = known_settlements(reports, now)
    within = [each for each in settlements if query.start <= each.at < stop]
    rows = [_settlement_row(settlement) for settlement in within[: query.limit]]
    if len(within) > query.limit:
        return SeriesPage(rows, within[query.limit].at)
    return SeriesPage(rows, stop if stop < query.span.end else None)


def _settlement_row(settled: SettledFunding) -> SeriesRow:
    rate_pct, hours = settled.funding_rate_pct, settled.funding_interval_hours
    watched = 0.0 if settled.is_backfilled else 1.0
    return (
        *(iso_timestamp(settled.at), rate_pct, "settled", watched),
        *(hours, eight_hour_rate(rate_pct, hours)),
    )


async def _changes(tx: Transaction, query: SeriesQuery) -> SeriesPage:
    """The label at the start of the range, which may have begun before it, and each change."""
    sql = _CHANGES[query.measure]
    key, (start, end) = query.key or query.venue, query.span
    before = []
    if query.start == start:
        before = await tx.fetch(f"{sql} AND at <= $2 ORDER BY at DESC LIMIT 1", key, start)
    count, after = query.limit - len(before), max(query.start, start + 1)
    found = await tx.fetch(
        f"{sql} AND at >= $2 AND at < $3 ORDER BY at LIMIT $4", key, after, end, count + 1
    )
    rows = [
        (iso_timestamp(at), label, "measured", None, detail)
        for at, label, detail in (*before, *found[:count])
    ]
    return SeriesPage(rows, found[count][0] if len(found) > count else None)


async def _figures(tx: Transaction, query: SeriesQuery) -> SeriesPage:
    days = (_day(query.start), _day(query.span.end))
    figures = await figures_between(tx, query.measure, days, query.known_at, query.limit + 1)
    rows = [
        (
            *(f"{each.day}T00:00:00.000Z", each.value, "published", None),
            *(each.revision, iso_timestamp(each.observed_at)),
        )
        for each in figures[: query.limit]
    ]
    following = instant("day", figures[-1].day) if len(figures) > query.limit else None
    source = _sources(each.source for each in figures[: query.limit])
    return SeriesPage(rows, following, as_of=query.known_at, source=source)


def _day(at: int) -> str:
    """The first day that begins at an instant or later."""
    return iso_timestamp(-(-at // DAY) * DAY)[:10]


def _sources(sources: Iterable[str]) -> str | None:
    return "; ".join(source_with_notice(source) for source in sorted(set(sources))) or None


_CHANGES = {
    "regime": "SELECT at, label, funding_8h_pct FROM regime_changes WHERE venue = $1",
    "signals": "SELECT at, label, value FROM signal_changes WHERE key = $1",
}

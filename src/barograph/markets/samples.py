"""Recorded values as charts show them: on a grid of instants, with gaps (pure)."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.venues.records import ContractName
from barograph.venues.registry import BYBIT, VENUES

Measure = Literal[
    "price",
    "funding",
    "open-interest",
    "open-interest-coins",
    "volume",
    "volume-coins",
    "index-price",
    "basis",
    "long-accounts",
]

DAYS = (1, 7, 30, 60)
"""How many days a series may cover."""

DEFAULT_DAYS = 7
SERIES_FOLDER = "/api/v1/series/"
"""Where any part of a series can be read."""

FINE_STEP = 5 * MINUTE
"""The grid of one day if there are readings by the minute."""

STEPS: Mapping[int, int] = {1: HOUR, 7: HOUR, 30: 2 * HOUR, 60: 4 * HOUR}
"""The grid for each number of days, in milliseconds; no series has many more than 360 points."""

COLUMN_HOURS: Mapping[int, int] = {1: 1, 7: 6, 30: 24, 60: 24}
GRACE = 5 * MINUTE
"""For this long after its instant a missing sample counts as late, not as a gap."""


class MeasureLabels(NamedTuple):
    """The name and unit of a measure."""

    name: str
    unit: str


MEASURES: Mapping[Measure, MeasureLabels] = {
    "price": MeasureLabels("Last price", "USDT"),
    "funding": MeasureLabels("Funding rate", "% per 8 h"),
    "open-interest": MeasureLabels("Open interest", "USD"),
    "open-interest-coins": MeasureLabels("Open interest", "coins"),
    "volume": MeasureLabels("24-hour volume", "USD"),
    "volume-coins": MeasureLabels("24-hour volume", "coins"),
    "index-price": MeasureLabels("Index price", "USDT"),
    "basis": MeasureLabels("Mark price above the index", "% of the index"),
    "long-accounts": MeasureLabels("Long accounts", "% of accounts"),
}


CHARTED: tuple[Measure, ...] = ("price", "funding", "open-interest", "long-accounts")
"""The measures that have charts."""


def labels_of(measure: Measure, venue: str) -> MeasureLabels:
    """The labels of a measure at a venue; venues differ in the kind and currency of prices."""
    if measure != "price":
        return MEASURES[measure]
    return MeasureLabels(f"{VENUES[venue].price_kind} price".capitalize(), VENUES[venue].quote)


class RecordedListing(NamedTuple):
    """A time in which a venue listed a contract."""

    venue: str
    contract: str
    asset: str
    """The coin without its multiplier."""

    multiplier: int
    """How many coins price and sizes are for."""

    listed_at: int
    """When we first saw it, or its first back-filled hour."""

    delisted_at: int | None
    """When readings of the venue first lacked it; None while it is listed."""

    @property
    def name(self) -> ContractName:
        """What keys its readings."""
        return ContractName(self.venue, self.contract)


class Point(NamedTuple):
    """A sample; None where nothing was recorded."""

    at: int
    value: float | None
    is_backfilled: bool = False
    """Whether it comes from the exchange's own history; otherwise we measured it."""

    is_disputed: bool = False
    """Whether comparison with the other venues found it wrong."""


class Series(NamedTuple):
    """One measure of one contract, on a complete grid."""

    contract: str
    measure: Measure
    days: int
    interval: int
    """Between two points, in milliseconds."""

    as_of: int
    points: tuple[Point, ...]
    venue: str = BYBIT


class LiquidationColumn(NamedTuple):
    """What one venue liquidated from `at` on, in USD; None when we didn't watch."""

    at: int
    long_usd: float | None
    short_usd: float | None
    watched_pct: float
    """Share of the column's time so far in which we can't have missed anything, in percent."""

    partial: bool
    """We watched too little, or the column's time is not over: there may be more."""

    is_disputed: bool = False
    """Whether the sides were disputed at any time of it. The total of both counts all the same."""


class LiquidationSeries(NamedTuple):
    """Liquidations in columns of equal length, oldest first."""

    days: int
    interval: int
    """The length of a column, in milliseconds."""

    as_of: int
    """The minute up to which liquidations are known."""

    columns: tuple[LiquidationColumn, ...]
    watched_since: int | None = None
    """When we began to watch, if that is after the first column began."""


class LiquidatedHour(NamedTuple):
    """What was liquidated in the hour before `until`."""

    until: int
    watched_pct: float
    by_contract: Mapping[str, tuple[float, float]]
    """Longs and shorts in USD, by the contract's full name."""

    is_disputed: bool = False


PAST_HOURS = (1, 4, 12, 24)
"""The spans whose liquidations the site shows, the shortest first."""


class LiquidatedHours(NamedTuple):
    """What a venue liquidated in the `hours` before `until`."""

    venue: str
    until: int
    hours: int
    unwatched: int
    """The time in which we may have missed some, in milliseconds."""

    by_contract: Mapping[str, tuple[float, float]]
    """Longs and shorts in USD, by the contract's full name."""

    is_disputed: bool = False
    """Whether the sides were disputed at any time of it."""


class PastRegime(NamedTuple):
    """The regime at a past instant, with the rate measured then; None for what was not recorded."""

    label: str | None
    funding_8h_pct: float | None
    at: int | None
    """The hour of the rate."""

    is_backfilled: bool = False
    """Whether the rate is the last settled one, from the exchange's own history."""


NOT_RECORDED = PastRegime(None, None, None)


def on_grid(recorded: Mapping[int, Point], days: int, step: int, now: int) -> tuple[Point, ...]:
    """Lay points on the grid of the last days; the values of missing ones are None."""
    newest = now // step * step
    instants = range(newest - days * DAY, newest + 1, step)
    points = [recorded.get(at, Point(at, None)) for at in instants]
    if points[-1].value is None and now - newest < GRACE:
        points.pop()
    return tuple(points)


def column_starts(days: int, until: int) -> range:
    """The start of each column; the last column contains the moment before `until`."""
    length = COLUMN_HOURS[days] * HOUR
    end = -(-until // length) * length
    return range(end - days * DAY, end, length)


def known_until(now: int, *ends: int | None) -> int:
    """The minute up to which data is known; `now` if that is long ago."""
    newest = max((end // MINUTE * MINUTE for end in ends if end is not None), default=0)
    return min(now, newest) if now - newest < GRACE else now

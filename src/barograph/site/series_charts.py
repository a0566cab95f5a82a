"""Charts with title, note and links to their data in the API (pure)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.datastructures import QueryParams

from barograph.badges.documents import BADGE_FOLDER
from barograph.errors import InvalidRequest
from barograph.kit.text import price, rate, usd
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.aggregates import ALL, TotalPoint, TotalSeries
from barograph.markets.regime import EDGES_PCT
from barograph.markets.samples import (
    DAYS,
    DEFAULT_DAYS,
    FINE_STEP,
    SERIES_FOLDER,
    LiquidationSeries,
    Measure,
    Point,
    Series,
    labels_of,
)
from barograph.site.charts.axes import REGIME_OF, ChartEvent, Timeline, timeline
from barograph.site.charts.columns import column_chart, sums_text
from barograph.site.charts.lines import LEGEND, MISSING, drawn, every, line_chart
from barograph.site.charts.small import REGIME_BANDS
from barograph.site.charts.svg import NOTHING
from barograph.site.paths import CHART_FOLDER, HOME_PATH, MARKETS_FOLDER
from barograph.site.templating import date_and_time
from barograph.venues.facts import PriceKind
from barograph.venues.registry import VENUES

LIQUIDATIONS = "liquidations"
INVALID_DAYS = f"days must be one of {', '.join(map(str, DAYS))}, given once"
MOST_POINTS = 3_000
"""Enough for two days by the minute, the longest series of a chart."""

_INTERVALS = {FINE_STEP: "minute", 4 * HOUR: "4h", DAY: "day"}
"""The finest interval of the API whose points hold those of a chart; otherwise it is an hour."""

_PRICES: Mapping[PriceKind, str] = {"last": "last trade", "mark": "mark price"}
NOTES: Mapping[Measure, str] = {
    "funding": (
        "Percent per 8 hours; if positive, longs pay shorts. The horizontal lines are the "
        f"edges of the BTC regime: {', '.join(f'{edge:+g}' for edge in EDGES_PCT)} %."
    ),
    "open-interest": (
        "Value of all open positions in USD, one-sided: each long and its short count once."
    ),
    "long-accounts": (
        "Accounts with a net long position, in percent of all accounts with a position. It counts "
        "accounts, not money: 60 % does not mean that longs are larger than shorts."
    ),
}
_LIQUIDATED = (
    "USD value of liquidated positions, all contracts. One bar per {}. "
    "Hatched: less than {:g} % covered, or still in progress."
)
_SINCE = "We have tracked liquidations since {}. The exchange publishes no history of liquidations."
_DISPUTED_SIDES = (
    " Disputed: the sides of {} of {} bars contradict the price, so these bars show only the total."
)
_SHOWN: Mapping[Measure, Callable[[float], str]] = {
    "price": price,
    "funding": rate,
    "open-interest": usd,
    "long-accounts": "{:.1f} %".format,
}


_SUFFIXES: Mapping[Measure, str] = {"funding": " per 8 h", "long-accounts": " of accounts"}


class Chart(NamedTuple):
    """A drawing, with links to its data."""

    name: str
    """Its anchor in a page."""

    title: str
    drawing: Markup
    period: str
    """Which time it shows; replaced by the value under the pointer."""

    latest: str
    """The newest value and its time. Not for pages: there it could be taken for current."""

    json: str
    csv: str
    note: str
    image: str
    """The path of the same chart as an image; empty for a chart that doesn't end now."""

    page: str
    """The path of a page with this chart."""

    days: int
    origin: str = ""
    """Where the data comes from, if we did not measure all of it."""

    events: tuple[ChartEvent, ...] = ()
    badge: str = ""
    """The path of the badge with the current value, if there is one."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded of its time."""
        return self.latest == NOTHING.capitalize()


def chosen_days(asked: str | None) -> int:
    """The requested number of days if it is one of `DAYS`, otherwise the default."""
    return next((days for days in DAYS if asked == str(days)), DEFAULT_DAYS)


def days_from_query(query: QueryParams) -> int:
    """The parameter `days`.

    Raises:
        InvalidRequest: it is not one of `DAYS`, or is repeated.
    """
    given = query.getlist("days")
    known = {str(days): days for days in DAYS}
    if len(given) > 1 or not known.keys() >= {*given}:
        raise InvalidRequest(INVALID_DAYS)
    return known[given[0]] if given else DEFAULT_DAYS


def days_query(days: int) -> bytes:
    """The canonical query for a number of days."""
    return b"" if days == DEFAULT_DAYS else b"days=%d" % days


def data_path(measure: str, form: str, step: int, **query: str) -> str:
    """Where the API has the values of a chart, one per `step` or more, as JSON or CSV."""
    if step in _INTERVALS:
        query["interval"] = _INTERVALS[step]
    if form == "json":
        query["limit"] = str(MOST_POINTS)
    path = f"{SERIES_FOLDER}{measure}{'.csv' if form == 'csv' else ''}"
    return f"{path}?{urlencode(query, safe=':')}"


def first_day(start: int) -> str:
    """The day from which to read the data of a chart that ends now.

    It rarely changes, so that the script knows the chart again when it is replaced.
    """
    return iso_timestamp(start)[:10]


def measure_chart(
    series: Series,
    symbol: str,
    root: str,
    events: Sequence[ChartEvent] = (),
    at: int | None = None,
    *,
    venues: Sequence[str] = (),
) -> Chart:
    """The chart of one measure, with events, and a line `at` an instant; or of all `venues`."""
    measure, days = series.measure, series.days
    latest, newest = _latest(series)
    marked = ((), None) if newest is None else (events, at)  # nothing is marked without a line
    time = timeline(days, series.as_of, *marked)
    title = f"{symbol} {labels_of(measure, series.venue).name.lower()}"
    span = _span(time, ends=at is not None)
    query = {"venue": series.venue, "symbol": symbol, **span}
    json, csv = _data(root, measure, series.interval, query)
    return Chart(
        name=measure,
        title=title,
        drawing=_line(series, title, json, time, tinted=symbol == REGIME_OF, venues=venues),
        period=_period(days, newest),
        latest=latest,
        json=json,
        csv=csv,
        note=_note(series) + _moment_note(time),
        image="" if at is not None else f"{CHART_FOLDER}{symbol}/{measure}.svg?days={days}",
        page=f"{MARKETS_FOLDER}{symbol}?days={days}#{measure}",
        days=days,
        origin=f"{_origin_note(series)} {_dispute_note(series)}".strip(),
        events=time.events,
        badge=f"{BADGE_FOLDER}funding/{symbol}.svg" if measure == "funding" else "",
    )


def total_chart(totals: TotalSeries, root: str, events: Sequence[ChartEvent] = ()) -> Chart:
    """The chart of a coin at all venues that cover its time; with last values, it is dashed."""
    points = tuple(
        Point(each.at, drawn_total(each), is_backfilled=bool(each.missing))
        for each in totals.points
    )
    inside = ", ".join(VENUES[venue].title for venue in totals.venues) or "no venue"
    span = (totals.days, totals.interval, totals.as_of)
    series = Series(inside, totals.measure, *span, points, ALL)
    chart = measure_chart(series, totals.asset, root, events, venues=totals.venues)
    kind = "Mean, weighted by open interest," if totals.measure == "funding" else "Total"
    origin = f"{kind} of {inside}."
    if totals.left_out:
        names = ", ".join(VENUES[venue].title for venue in totals.left_out)
        origin += f" Left out, because we don't cover enough of this time: {names}."
    if partial := sum(point.is_backfilled for point in points):
        origin += (
            f" Dashed: {partial} of {len(points)} values include the last value of a missing venue."
        )
    page = f"{MARKETS_FOLDER}{totals.asset}?days={totals.days}#{totals.measure}"
    title = f"{chart.title} at {inside if totals.left_out else 'all venues'}"
    return chart._replace(title=title, image="", badge="", page=page, origin=origin)


def drawn_total(point: TotalPoint) -> float | None:
    """A total with what is missing as it last was; None if a part of it is unknown."""
    return point.with_missing if point.missing else point.value


def _line(
    series: Series,
    title: str,
    data_url: str,
    time: Timeline,
    *,
    tinted: bool,
    venues: Sequence[str],
) -> Markup:
    measure = series.measure
    return line_chart(
        series,
        prefix=f"chart-{measure}",
        name=title,
        unit=labels_of(measure, series.venue).unit,
        bands=REGIME_BANDS if measure == "funding" else (),
        tinted=tinted,
        show=_SHOWN[measure],
        signed=measure == "funding",
        data_url=data_url,
        time=time,
        legend=MISSING if venues else LEGEND,
        venues=venues,
    )


def _note(series: Series) -> str:
    is_price = series.measure == "price"
    meaning = f"{price_unit(series.venue)}." if is_price else NOTES[series.measure]
    return f"{meaning} One sample per {every(series.interval)}."


def _latest(series: Series) -> tuple[str, int | None]:
    """The newest recorded value, written as on the page, and its time."""
    known = [(point.at, point.value) for point in drawn(series.points) if point.value is not None]
    if not known:
        return NOTHING.capitalize(), None
    at, value = known[-1]
    measure = series.measure
    unit = f" {VENUES[series.venue].quote}" if measure == "price" else _SUFFIXES.get(measure, "")
    return f"Last {_SHOWN[measure](value)}{unit} at {date_and_time(at)}", at


def _period(days: int, until: int | None) -> str:
    return NOTHING.capitalize() if until is None else f"{days_text(days)} to {date_and_time(until)}"


def days_text(days: int) -> str:
    """A number of days in words: `1 day`, `7 days`."""
    return f"{days} day{'' if days == 1 else 's'}"


def _moment_note(time: Timeline) -> str:
    if time.moment is None:
        return ""
    return f" The vertical line marks {date_and_time(time.moment)}, the end of the measured period."


def _span(time: Timeline, *, ends: bool) -> dict[str, str]:
    """The parameters for the time of a chart; one that ends now has only the first."""
    if not ends:
        return {"from": first_day(time.start)}
    return {"from": iso_timestamp(time.start), "to": iso_timestamp(time.end)}


def _data(root: str, measure: str, step: int, query: dict[str, str]) -> tuple[str, str]:
    """The addresses of a chart's data, as JSON and as CSV."""
    json, csv = (root + data_path(measure, form, step, **query) for form in ("json", "csv"))
    return json, csv


def price_unit(venue: str) -> str:
    """The currency and kind of a venue's prices, such as `USDT, last trade`."""
    return f"{VENUES[venue].quote}, {_PRICES[VENUES[venue].price_kind]}"


def _dispute_note(series: Series) -> str:
    """How many values are disputed; empty if none is."""
    count = sum(point.is_disputed for point in series.points)
    if not count:
        return ""
    return (
        f"Disputed: {count} of {len(series.points)} values contradict the other venues, so the "
        "line leaves them out. The data has them, marked."
    )


def _origin_note(series: Series) -> str:
    """Which values come from the exchange's own history; empty if we measured all of them."""
    known = [point for point in series.points if point.value is not None]
    backfilled = [each.at for each in known if each.is_backfilled]
    measured = [each.at for each in known if not each.is_backfilled]
    if not backfilled:
        return ""
    settled = " (the last settled rate)" if series.measure == "funding" else ""
    source = f"come from the exchange's own history{settled}"
    if not measured:
        return f"Dashed: all values {source}."
    if backfilled[-1] < measured[0]:
        since = date_and_time(measured[0])
        return f"Dashed: values before {since} {source}; we measured the rest."
    values = f"{len(backfilled)} of {len(known)} values"
    return f"Dashed: {values} {source}, for times when we did not measure."


def liquidations_chart(
    series: LiquidationSeries,
    min_coverage_pct: float,
    root: str,
    time: Timeline,
    venue: str,
) -> Chart:
    """The chart of all liquidations; intervals with less coverage are hatched."""
    days = series.days
    span = _span(time, ends=time.moment is not None)
    json, csv = _data(root, LIQUIDATIONS, series.interval, {"venue": venue, **span})
    since = (
        "" if series.watched_since is None else _SINCE.format(date_and_time(series.watched_since))
    )
    return Chart(
        name=LIQUIDATIONS,
        title="Liquidations",
        drawing=column_chart(
            series, prefix="chart-liquidations", name="Liquidations", data_url=json, time=time
        ),
        period=_period(days, series.as_of),
        latest=_recorded(series),
        json=json,
        csv=csv,
        note=_LIQUIDATED.format(every(series.interval), min_coverage_pct) + _moment_note(time),
        image="" if time.moment is not None else f"{CHART_FOLDER}{LIQUIDATIONS}.svg?days={days}",
        page=f"{HOME_PATH}?days={days}#{LIQUIDATIONS}",
        days=days,
        origin=f"{since}{_side_note(series)}".strip(),
        events=time.events,
    )


def _side_note(series: LiquidationSeries) -> str:
    """How many columns have disputed sides; empty if none has."""
    count = sum(column.is_disputed for column in series.columns)
    return _DISPUTED_SIDES.format(count, len(series.columns)) if count else ""


def _recorded(series: LiquidationSeries) -> str:
    """The sums of what was recorded, which is less than all if the coverage has gaps."""
    known = [column for column in series.columns if column.long_usd is not None]
    if not known:
        return NOTHING.capitalize()
    return f"Recorded {sums_text(known)} to {date_and_time(series.as_of)}"

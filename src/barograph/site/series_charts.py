"""Charts with title, note and links to their data (pure)."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import price, usd
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.samples import (
    DAYS,
    DEFAULT_DAYS,
    LiquidationSeries,
    Measure,
    Series,
    labels_of,
)
from barograph.markets.venues import VENUES, PriceKind
from barograph.site.charts.columns import column_chart
from barograph.site.charts.gauge import REGIME_BANDS
from barograph.site.charts.lines import line_chart
from barograph.site.series_documents import data_path, liquidations_path
from barograph.site.templating import date_and_time, rate

_PRICES: Mapping[PriceKind, str] = {"last": "last trade", "mark": "mark price"}
NOTES: Mapping[Measure, str] = {
    "funding": (
        "Percent per 8 hours; if positive, longs pay shorts. The bands are those of the BTC regime."
    ),
    "open-interest": (
        "Value of all open positions in USD, single-sided: each long and its short count once."
    ),
    "long-accounts": (
        "Accounts with a net long position, in percent of all accounts with a position. It counts "
        "accounts, not money: 60 % does not mean that longs are larger than shorts."
    ),
}
_LIQUIDATED = (
    "USD value of liquidated positions, all contracts. "
    "Hatched: less than {:g} % covered, or still in progress."
)
_SINCE = "We have tracked liquidations since {}. The exchange publishes no history of liquidations."
_SHOWN: Mapping[Measure, Callable[[float], str]] = {
    "price": price,
    "funding": rate,
    "open-interest": usd,
    "long-accounts": "{:.1f} %".format,
}


class Chart(NamedTuple):
    """A drawing, with links to its data."""

    title: str
    drawing: Markup
    json: str
    csv: str
    note: str
    """Replaced by the value under the pointer."""

    origin: str = ""
    """Where the data comes from, if we did not measure all of it."""


def chosen_days(asked: str | None) -> int:
    """The requested number of days if it is one of `DAYS`, otherwise the default."""
    return next((days for days in DAYS if asked == str(days)), DEFAULT_DAYS)


def measure_chart(series: Series, symbol: str, root: str) -> Chart:
    """The chart of one measure."""
    measure, days = series.measure, series.days
    labels = labels_of(measure, series.venue)
    title = f"{symbol} {labels.name.lower()}"
    json, csv = (root + data_path(symbol, measure, days, form) for form in ("json", "csv"))
    drawing = line_chart(
        series,
        prefix=f"chart-{measure}",
        name=title,
        unit=labels.unit,
        bands=REGIME_BANDS if measure == "funding" else (),
        show=_SHOWN[measure],
        signed=measure == "funding",
        data_url=json,
    )
    meaning = f"{price_unit(series.venue)}." if measure == "price" else NOTES[measure]
    note = f"{meaning} {_sampled(series.interval)}"
    return Chart(title, drawing, json, csv, note, _origin_note(series))


def price_unit(venue: str) -> str:
    """The currency and kind of a venue's prices, such as `USDT, last trade`."""
    return f"{VENUES[venue].quote}, {_PRICES[VENUES[venue].price_kind]}"


def _origin_note(series: Series) -> str:
    """Which values come from the exchange's own history; empty if we measured all of them."""
    known = [each for each in series.points if each.value is not None]
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


def _sampled(interval: int) -> str:
    if interval < HOUR:
        return f"One sample every {interval // MINUTE} minutes."
    if interval == HOUR:
        return "One sample per hour."
    return f"One sample every {interval // HOUR} hours."


def liquidations_chart(series: LiquidationSeries, min_coverage_pct: float, root: str) -> Chart:
    """The chart of all liquidations; intervals with less coverage are hatched."""
    json, csv = (root + liquidations_path(series.days, form) for form in ("json", "csv"))
    drawing = column_chart(series, prefix="chart-liquidations", name="Liquidations", data_url=json)
    since = (
        "" if series.watched_since is None else _SINCE.format(date_and_time(series.watched_since))
    )
    return Chart("Liquidations", drawing, json, csv, _LIQUIDATED.format(min_coverage_pct), since)

"""A chart as pages show it (pure): its title, its drawing, its data beside it, what it means."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.text import price, usd
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.samples import (
    DAYS,
    DEFAULT_DAYS,
    MEASURES,
    LiquidationSeries,
    Measure,
    Series,
)
from barograph.site.charts.columns import column_chart
from barograph.site.charts.gauge import REGIME_BANDS
from barograph.site.charts.lines import line_chart
from barograph.site.frame.writer import rate
from barograph.site.series_documents import data_path, liquidations_path

NOTES: Mapping[Measure, str] = {
    "price": "USDT, last trade.",
    "funding": (
        "Percent per 8 hours. Positive: longs pay shorts. The bands are those of the BTC regime."
    ),
    "open-interest": (
        "Value of all open positions in USD, single-sided: a long and its short count once."
    ),
    "long-accounts": (
        "Accounts with a net long position, in percent of all accounts with a position. It counts "
        "accounts, not money: 60 does not mean that longs are larger than shorts."
    ),
}
_LIQUIDATED = (
    "USD of positions closed by force, all contracts. "
    "Hatched: less than {:g} % watched, or not over yet."
)
_SHOWN: Mapping[Measure, Callable[[float], str]] = {
    "price": price,
    "funding": rate,
    "open-interest": usd,
    "long-accounts": "{:.1f} %".format,
}


class Chart(NamedTuple):
    """A drawing, with its data beside it."""

    title: str
    drawing: Markup
    json: str
    csv: str
    note: str


def chosen_days(asked: str | None) -> int:
    """Over how many days charts go: one of `DAYS`, whatever was asked."""
    return next((days for days in DAYS if asked == str(days)), DEFAULT_DAYS)


def measure_chart(series: Series, symbol: str, root: str) -> Chart:
    """The chart of one measure."""
    measure, days = series.measure, series.days
    title = f"{symbol} {MEASURES[measure].name.lower()}"
    json, csv = (root + data_path(symbol, measure, days, form) for form in ("json", "csv"))
    drawing = line_chart(
        series,
        prefix=f"chart-{measure}",
        name=title,
        unit=MEASURES[measure].unit,
        bands=REGIME_BANDS if measure == "funding" else (),
        show=_SHOWN[measure],
        signed=measure == "funding",
        data_url=json,
    )
    return Chart(title, drawing, json, csv, f"{NOTES[measure]} {_sampled(series.interval)}")


def _sampled(interval: int) -> str:
    """How far apart the samples of a chart are."""
    if interval < HOUR:
        return f"A sample every {interval // MINUTE} minutes."
    return "A sample an hour." if interval == HOUR else f"A sample every {interval // HOUR} hours."


def liquidations_chart(series: LiquidationSeries, min_watched_pct: float, root: str) -> Chart:
    """The chart of the liquidations of all contracts; less watched than this is not enough."""
    json, csv = (root + liquidations_path(series.days, form) for form in ("json", "csv"))
    drawing = column_chart(series, prefix="chart-liquidations", name="Liquidations", data_url=json)
    return Chart("Liquidations", drawing, json, csv, _LIQUIDATED.format(min_watched_pct))

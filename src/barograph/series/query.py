"""The measures of `/api/v1/series/{measure}` and their parameters."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barograph.errors import InvalidRequest, NotFound
from barograph.kit.lists import DEFAULT_LIMIT, Window, instant, one_of, window
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.macro.records import EFFR, EFFR_HIGH, EFFR_LOW, SOFR, US2Y, US3M, US10Y
from barograph.macro.store import etf_names
from barograph.markets.aggregates import ALL, TOTALS
from barograph.markets.samples import MEASURES
from barograph.markets.store import HOUR_DAYS, LIQUIDATION_DAYS, MINUTE_DAYS
from barograph.markets.symbols import DEFAULT_SYMBOL
from barograph.settings import Settings
from barograph.signals.methods import BY_KEY
from barograph.venues.registry import VENUES, liquidation_venue

INTERVALS = {"minute": MINUTE, "hour": HOUR, "4h": 4 * HOUR, "day": DAY}
STEPS = {**INTERVALS, "1m": MINUTE, "1h": HOUR, "1d": DAY}

_YEAR_1 = instant("year", "0001-01-01")
_EVERY = ("from", "to", "limit", "cursor", "format")
_GRID = ("venue", "symbol", "interval", *_EVERY)
_FUND_UNITS = {"shares": "shares", "nav": "USD", "btc": "BTC", "aum": "USD", "flow": "USD"}


ALL_MEASURES = (*TOTALS, "liquidations")
"""The measures of venue=all."""

TOTAL_MEMBERS = ("with_missing", "venues", "missing", "by_venue")
"""What points of all venues have."""


class MeasureRules(NamedTuple):
    """The unit of a measure, its parameters, and the members of its points."""

    unit: str
    default_days: int
    parameters: tuple[str, ...]
    extra: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of a point, which are also the columns of the table."""
        return ("at", "value", "origin", "watched", *self.extra)


MARKET_SERIES: Mapping[str, MeasureRules] = {
    **{
        name: MeasureRules(labels.unit, 7, _GRID, ("disputed",))
        for name, labels in MEASURES.items()
    },
    "settled-funding": MeasureRules(
        "% per interval", 30, ("venue", "symbol", *_EVERY), ("interval_hours", "rate_8h")
    ),
    "liquidations": MeasureRules("USD", 7, _GRID, ("long_usd", "short_usd", "disputed")),
    "regime": MeasureRules("label", 90, ("venue", *_EVERY), ("funding_8h_pct",)),
    "signals": MeasureRules("label", 90, ("venue", "key", *_EVERY), ("text",)),
}
"""All but the daily figures."""


def macro_series(settings: Settings) -> dict[str, MeasureRules]:
    """The series of daily figures that this instance collects."""
    names = (US3M, US2Y, US10Y, SOFR, EFFR, EFFR_LOW, EFFR_HIGH, *etf_names(settings))
    return {name: _macro_rules(name) for name in names}


def _macro_rules(series: str) -> MeasureRules:
    unit = _FUND_UNITS[series.rpartition("-")[2]] if series.startswith("etf-") else "% per year"
    return MeasureRules(unit, 365, ("as_of", *_EVERY), ("revision", "observed_at"))


class SeriesQuery(NamedTuple):
    """A series, the range of it that is asked for, and where to begin."""

    measure: str
    rules: MeasureRules
    venue: str
    symbol: str | None
    """As given."""

    key: str | None
    """Of a signal."""

    span: Window
    step: int
    """Between two points on a grid, in milliseconds."""

    known_at: int
    kept_from: int
    """Before it, records are deleted; 0 if they are kept for good."""

    start: int
    """Where a page begins."""

    limit: int

    venues: Sequence[str] = ()
    """The configured venues, which `venue=all` adds up."""

    @property
    def has_grid(self) -> bool:
        """Whether its points are at equal distances."""
        return "interval" in self.rules.parameters

    @property
    def is_macro(self) -> bool:
        """Whether it is a series of daily figures."""
        return "as_of" in self.rules.parameters


def series_query(
    measure: str, given: Mapping[str, str], *, settings: Settings, now: int
) -> SeriesQuery:
    """Read the parameters of a measure.

    Raises:
        InvalidRequest: one is invalid or does not apply to the measure.
        NotFound: the measure or the signal is unknown, or the venue has no such record.
    """
    measures = {**MARKET_SERIES, **macro_series(settings)}
    if measure not in measures:
        raise NotFound(f"unknown measure; the measures are {', '.join(measures)}")
    rules = measures[measure]
    for name in given:
        if name not in rules.parameters:
            known = ", ".join(rules.parameters)
            raise InvalidRequest(f"{name} does not apply to {measure}; its parameters are {known}")
    venue = _venue(measure, given, settings.venue_names)
    if venue == ALL:
        rules = _total_rules(measure, rules)
    elif measure == "price":
        rules = rules._replace(unit=VENUES[venue].quote)
    step = _step(measure, given)
    days = _retained_days(measure, step, given)
    kept_from = 0 if days is None else now - days * DAY
    oldest = kept_from // DAY * DAY  # whole days
    span = window(given, now=now, oldest=oldest, default=rules.default_days * DAY)
    return SeriesQuery(
        measure=measure,
        rules=rules,
        venue=venue,
        symbol=_symbol(rules, given),
        key=_key(rules, given),
        span=span,
        step=step,
        known_at=_known_at(given, now),
        kept_from=kept_from,
        start=span.start,
        limit=DEFAULT_LIMIT,
        venues=settings.venue_names,
    )


def _total_rules(measure: str, rules: MeasureRules) -> MeasureRules:
    if measure == "liquidations":
        return rules._replace(extra=(*rules.extra, *TOTAL_MEMBERS[1:], "completeness"))
    labels = {str(name): labels for name, labels in TOTALS.items()}.get(measure)
    if labels is None:
        known = ", ".join(ALL_MEASURES)
        raise InvalidRequest(
            f"venue=all is for {known}; leave venue out for {measure}, or name one"
        )
    extra = (*TOTAL_MEMBERS, "low", "high", "price_venue") if measure == "price" else TOTAL_MEMBERS
    return rules._replace(unit=labels.unit, extra=extra)


def _venue(measure: str, given: Mapping[str, str], venues: Sequence[str]) -> str:
    """By default the primary: the venue in use changes, but a series stays that of one venue."""
    if given.get("venue") == ALL:
        return ALL
    if measure == "liquidations":
        return liquidation_venue(given, venues)
    venue = given.get("venue", venues[0])
    if measure == "signals" and venue != venues[0]:
        raise NotFound("signals follow the venue in use at the time; leave venue out")
    return venue


def _step(measure: str, given: Mapping[str, str]) -> int:
    step = STEPS[one_of(given, "interval", STEPS, "hour", InvalidRequest)]
    if measure == "liquidations" and step == MINUTE:
        raise InvalidRequest(
            "liquidations have no interval=minute; /api/v1/liquidations lists each of them"
        )
    return step


def _retained_days(measure: str, step: int, given: Mapping[str, str]) -> int | None:
    if measure in MEASURES:
        return MINUTE_DAYS if step == MINUTE else HOUR_DAYS
    is_by_contract = measure == "liquidations" and "symbol" in given
    return LIQUIDATION_DAYS if is_by_contract else None


def _symbol(rules: MeasureRules, given: Mapping[str, str]) -> str | None:
    default = None if "long_usd" in rules.extra else DEFAULT_SYMBOL
    return given.get("symbol", default) if "symbol" in rules.parameters else None


def _key(rules: MeasureRules, given: Mapping[str, str]) -> str | None:
    is_signal = "key" in rules.parameters
    return one_of(given, "key", BY_KEY, next(iter(BY_KEY))) if is_signal else None


def _known_at(given: Mapping[str, str], now: int) -> int:
    known_at = instant("as_of", given["as_of"]) if "as_of" in given else now
    # An offset may lead to a year that can't be written.
    if not _YEAR_1 <= known_at <= now and "cursor" not in given:
        raise InvalidRequest(
            f"as_of must be in the past, after the year 0; it is {iso_timestamp(now)} now"
        )
    return known_at

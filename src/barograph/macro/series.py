"""Derives flows of funds, and slopes and changes of rates, from daily figures (pure).

An unknown number is None or its day is absent; we never carry a value over from another day.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise

from msgspec import Struct

from barograph.kit.business_days import trading_days
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    RecordedFigure,
    fund_series,
    is_imported,
)

OPERATOR_COVERAGE = "operator's data"

_PLACES = 6
"""Decimals of a difference of rates, which removes float noise."""

_MOST_BACKING_CHANGE = 0.1
"""Fees change the bitcoin per share by little per year; a larger change in a day is a split."""


class EtfDay(Struct, frozen=True):
    """All covered funds together on one day."""

    day: str

    net_flow_usd: float | None
    """Net flow since the business day before, in USD; negative for outflows. None if that day's
    figures are missing."""

    aum_usd: float
    """Assets under management, in USD."""

    holdings_btc: float
    """Bitcoin held."""

    source: str
    observed_at: int
    """When the last of the figures behind these numbers was read, in milliseconds."""


class EtfSeries(Struct, frozen=True):
    """Days of funds, oldest first, and the funds they cover."""

    coverage: str
    days: tuple[EtfDay, ...]


class DayValue(Struct, frozen=True):
    """A number derived for one day."""

    day: str
    value: float
    source: str
    observed_at: int


class _FundDay(Struct, frozen=True):
    """A fund on one day, with its shares or its flow or both."""

    btc: RecordedFigure
    aum: RecordedFigure
    shares: RecordedFigure | None
    nav: RecordedFigure | None
    flow: RecordedFigure | None


Known = Mapping[str, Sequence[RecordedFigure]]
"""The newest revisions of each series by its name, as `macro.store` returns them."""


def issuer_series(known: Known, fund: str) -> EtfSeries:
    """The days of a fund with all the figures of its file, or with a flow that was imported."""
    days = _fund_days(known, fund)
    before = _days_before(days)
    return EtfSeries(
        f"{fund.upper()} only",
        tuple(_issuer_day(days[day], before.get(day)) for day in sorted(days)),
    )


def operator_series(known: Known) -> EtfSeries:
    """The days for which the operator gave assets and holdings; the flow may be missing."""
    flows, holdings = _by_day(known, OPERATOR_FLOW), _by_day(known, OPERATOR_BTC)
    days = []
    for day, aum in sorted(_by_day(known, OPERATOR_AUM).items()):
        btc, flow = holdings.get(day), flows.get(day)
        if btc is None:
            continue
        used = [aum, btc] if flow is None else [aum, btc, flow]
        net_flow = None if flow is None else flow.value
        days.append(EtfDay(day, net_flow, aum.value, btc.value, _sources(used), _read_at(used)))
    return EtfSeries(OPERATOR_COVERAGE, tuple(days))


def slope10y3m(us10y: Sequence[RecordedFigure], us3m: Sequence[RecordedFigure]) -> list[DayValue]:
    """Ten-year yield less three-month yield, in percent, on the days that have both."""
    by_day = {observation.day: observation for observation in us3m}
    return [
        DayValue(
            long.day,
            round(long.value - short.value, _PLACES),
            long.source if long.source == short.source else _sources([long, short]),
            max(long.observed_at, short.observed_at),
        )
        for long in us10y
        if (short := by_day.get(long.day)) is not None
    ]


def change_over(values: Sequence[RecordedFigure | DayValue], count: int) -> float | None:
    """The newest value less the one `count` observations before; None if there are too few."""
    if len(values) <= count:
        return None
    return round(values[-1].value - values[-1 - count].value, _PLACES)


def _by_day(known: Known, series: str) -> dict[str, RecordedFigure]:
    return {each.day: each for each in known.get(series, ())}


def _fund_days(known: Known, fund: str) -> dict[str, _FundDay]:
    btc, aum, shares, nav, flow = (
        _by_day(known, fund_series(fund, name)) for name in ("btc", "aum", "shares", "nav", "flow")
    )
    days = {}
    for day in btc.keys() & aum.keys():
        rest = [_unless_replaced(each.get(day), aum[day]) for each in (shares, nav, flow)]
        found = _FundDay(btc[day], aum[day], *rest)
        if found.flow is not None or (found.shares is not None and found.nav is not None):
            days[day] = found
    return days


def _unless_replaced(figure: RecordedFigure | None, aum: RecordedFigure) -> RecordedFigure | None:
    """The figure, unless a later file, which always has the assets, replaced its whole day."""
    if figure is not None and is_imported(figure.source) and figure.observed_at < aum.observed_at:
        return None
    return figure


def _issuer_day(today: _FundDay, before: _FundDay | None) -> EtfDay:
    net_flow, behind_it = _flow(before, today)
    figures = (today.btc, today.aum, today.shares, today.nav, behind_it)
    used = [figure for figure in figures if figure is not None]
    return EtfDay(
        day=today.btc.day,
        net_flow_usd=net_flow,
        aum_usd=today.aum.value,
        holdings_btc=today.btc.value,
        source=_sources(used),
        observed_at=_read_at(used),
    )


def _days_before(days: Mapping[str, _FundDay]) -> dict[str, _FundDay]:
    """For each day the fund's figures of the trading day before, if there are any."""
    return {
        day: days[before]
        for before, day in pairwise(sorted(days))
        if not _is_gap(date.fromisoformat(before), date.fromisoformat(day))
    }


def _is_gap(before: date, day: date) -> bool:
    one = timedelta(days=1)
    return any(True for _ in trading_days(before + one, day - one))


def _flow(before: _FundDay | None, now: _FundDay) -> tuple[float | None, RecordedFigure | None]:
    """The flow of a day, and the figure behind it that is not in the day's own file.

    It is the change of shares times the value per share, or the flow that the operator stated, or
    the change of bitcoin times its price if the day before has no number of shares.
    """
    if before is not None and (found := _flow_of_shares(before, now)) is not None:
        return found
    if now.flow is not None:
        return now.flow.value, now.flow
    if before is not None and before.shares is None and now.btc.value > 0:
        price = now.aum.value / now.btc.value
        return (now.btc.value - before.btc.value) * price, before.btc
    return None, None


def _flow_of_shares(before: _FundDay, now: _FundDay) -> tuple[float, RecordedFigure] | None:
    """Change of shares times the value per share; None after a split."""
    if before.shares is None or now.shares is None or now.nav is None:
        return None
    if before.shares.value <= 0 or now.shares.value <= 0:
        return None
    backing_before = before.btc.value / before.shares.value
    backing_now = now.btc.value / now.shares.value
    if abs(backing_now - backing_before) > _MOST_BACKING_CHANGE * backing_before:
        return None
    return (now.shares.value - before.shares.value) * now.nav.value, before.shares


def _sources(figures: Iterable[RecordedFigure]) -> str:
    return "; ".join(sorted({figure.source for figure in figures}))


def _read_at(figures: Iterable[RecordedFigure]) -> int:
    return max(figure.observed_at for figure in figures)

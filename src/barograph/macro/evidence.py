"""What signals and briefs look at beside the market: daily figures, and what they amount to (pure).

None stands for what cannot be said: figures are missing, too few, or too old.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Literal, NamedTuple

from barograph.kit.business_days import trading_days
from barograph.kit.timestamps import SECOND
from barograph.macro import judgement
from barograph.macro.judgement import (
    DEAD_ZONE,
    ENTER_PCT,
    FLOW_DAYS,
    LOOK_BACK,
    NEEDED_FLOW_DAYS,
    STREAK_DAYS,
    FlowRegime,
    whole_week_of_flows,
)
from barograph.macro.records import Observation
from barograph.macro.series import DayValue, EtfDay, EtfSeries, change_over, slope10y3m


class MacroEvidence(NamedTuple):
    """The daily figures that are known at an instant."""

    at: int
    etf: EtfSeries
    us10y: Sequence[Observation]
    us3m: Sequence[Observation]
    """The newest revisions, the oldest day first."""

    @property
    def sources(self) -> list[str]:
        """The publishers of what is not too old, each once."""
        flows = [each.source for each in self.etf.days[-1:] if is_recent_trade(each.day, self.at)]
        yields = [each.source for each in self.us10y[-1:] if is_recent(each.day, self.at)]
        return list(dict.fromkeys([*flows, *yields]))


NO_FIGURES = MacroEvidence(0, EtfSeries("", ()), (), ())


class FlowWeek(NamedTuple):
    """Five days of flow, up to the newest."""

    days: Sequence[EtfDay]
    coverage: str
    flow_usd: float
    share_pct: float
    """The flow in percent of the newest day's assets."""

    inflow_days: int
    outflow_days: int

    @property
    def side(self) -> Literal["inflows", "outflows"] | None:
        """Where the money went, when it is much and on most of the days."""
        if self.share_pct >= ENTER_PCT and self.inflow_days >= STREAK_DAYS:
            return "inflows"
        if self.share_pct <= -ENTER_PCT and self.outflow_days >= STREAK_DAYS:
            return "outflows"
        return None


class Curve(NamedTuple):
    """The newest yields, and how they changed over twenty observations; in percent and points."""

    day: str
    us10y: float
    us10y_change: float
    slope: float
    move: str
    """In words with hyphens, such as `bear-steepening`."""


class CurveTurn(NamedTuple):
    """The day on which the slope took another sign, and the last day on which it had the other."""

    before: DayValue
    after: DayValue
    us10y: float
    us3m: float


def flow_week(evidence: MacroEvidence) -> FlowWeek | None:
    """The newest five days of flow."""
    days = evidence.etf.days
    if len(days) < NEEDED_FLOW_DAYS or not is_recent_trade(days[-1].day, evidence.at):
        return None
    return _week(days[-FLOW_DAYS:], evidence.etf.coverage)


def flow_regime(series: EtfSeries) -> FlowRegime:
    """The regime that all known days lead to: it is entered with a side, and left at half of it."""
    found: FlowRegime = "mixed"
    for end in range(FLOW_DAYS, len(series.days) + 1):
        week = _week(series.days[end - FLOW_DAYS : end], series.coverage)
        if week is not None:
            flows = [each.net_flow_usd or 0.0 for each in week.days]
            found = judgement.regime(week.share_pct, flows, found)
    return found


def curve(evidence: MacroEvidence) -> Curve | None:
    """The newest day of which both yields are known."""
    slopes = slope10y3m(evidence.us10y, evidence.us3m)
    both = {each.day for each in slopes}
    long = [each for each in evidence.us10y if each.day in both]
    change, slope_change = change_over(long, LOOK_BACK), change_over(slopes, LOOK_BACK)
    if change is None or slope_change is None or not is_recent(slopes[-1].day, evidence.at):
        return None
    move = judgement.curve(change, slope_change).replace(" ", "-")
    return Curve(long[-1].day, long[-1].value, change, slopes[-1].value, move)


def curve_turn(evidence: MacroEvidence) -> CurveTurn | None:
    """The newest change of the slope's sign, if its day is not too old.

    A slope has a sign at five basis points from zero; nearer to it, it keeps the one it had.
    """
    slopes = slope10y3m(evidence.us10y, evidence.us3m)
    signed = [each for each in slopes if abs(each.value) >= DEAD_ZONE]
    turns = [pair for pair in pairwise(signed) if (pair[0].value > 0) != (pair[1].value > 0)]
    if not turns or not is_recent(turns[-1][1].day, evidence.at):
        return None
    before, after = turns[-1]
    yields = [
        next(each.value for each in series if each.day == after.day)
        for series in (evidence.us10y, evidence.us3m)
    ]
    return CurveTurn(before, after, *yields)


def is_recent(day: str, at: int) -> bool:
    """Whether a day is not to come, and not too old, for someone who looks at an instant."""
    return judgement.is_recent(day, _day_of(at))


def is_recent_trade(day: str, at: int) -> bool:
    """The same for a day of a fund, which goes by the calendar of the exchanges."""
    return judgement.is_recent(day, _day_of(at), trading_days)


def _day_of(at: int) -> date:
    return datetime.fromtimestamp(at // SECOND, UTC).date()


def day_start(day: str, *, following: bool = False) -> int:
    """When a day begins, or the one after it, in milliseconds."""
    start = date.fromisoformat(day) + timedelta(days=1 if following else 0)
    return int(datetime.combine(start, time(), UTC).timestamp()) * SECOND


def _week(days: Sequence[EtfDay], coverage: str) -> FlowWeek | None:
    flows = whole_week_of_flows(days)
    assets = days[-1].aum_usd
    if flows is None or assets <= 0:
        return None
    flow = round(sum(flows), 2)
    return FlowWeek(
        days=days,
        coverage=coverage,
        flow_usd=flow,
        share_pct=round(100 * flow / assets, 4),
        inflow_days=sum(each > 0 for each in flows),
        outflow_days=sum(each < 0 for each in flows),
    )

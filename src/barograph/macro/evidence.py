"""Daily figures as evidence for signals, briefs and stances, and how we judge them (pure).

A function returns None when it can't tell: figures are missing, too few or too old.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from math import fsum, pi, sqrt
from typing import Literal, NamedTuple

from barograph.kit.business_days import business_days, trading_days
from barograph.kit.timestamps import SECOND
from barograph.macro.records import RecordedFigure, is_imported
from barograph.macro.series import DayValue, EtfDay, EtfSeries, change_over, slope10y3m

FlowRegime = Literal["accumulation", "mixed", "distribution"]
CURVE_MOVES = (
    *("bear", "bull", "steepening", "flattening", "consolidation"),
    *("bear-steepening", "bear-flattening", "bull-steepening", "bull-flattening"),
)
Calendar = Callable[[date, date], Iterator[date]]

FLOW_DAYS = 5
STREAK_DAYS = 4
NEEDED_FLOW_DAYS = 20
ENTER_PCT, LEAVE_PCT = 0.5, 0.25
"""Flow in percent of assets: a regime begins at the first and ends at the second."""

LOOK_BACK = 20
"""Changes of yields are measured over this many published days."""

USUAL_DAYS = 60
"""The usual move is that of this many daily changes, about a quarter."""

LARGE_MOVE = 1.0
"""A change below this many usual moves has no direction. A random walk is beyond it on 32 % of the
days, half of them on each side."""

YIELD_DAYS = USUAL_DAYS + 10
"""How many days of yields are read: a day that lacks one of them doesn't count."""

DEAD_ZONE = 0.05
"""In percentage points (5 basis points): a slope nearer to zero keeps its last sign."""

STALE_BUSINESS_DAYS = 2
"""Figures are too old when more business days than this have begun after their day."""


class MacroEvidence(NamedTuple):
    """The daily figures that are known at an instant."""

    at: int
    etf: EtfSeries
    us10y: Sequence[RecordedFigure]
    us3m: Sequence[RecordedFigure]
    """The newest revisions, oldest day first."""

    @property
    def sources(self) -> list[str]:
        """The publishers of recent figures, each once."""
        today = day_of(self.at)
        etf, us10y = self.etf.days[-1:], self.us10y[-1:]
        flows = [day.source for day in etf if is_recent(day.day, today, trading_days)]
        yields = [observation.source for observation in us10y if is_recent(observation.day, today)]
        return list(dict.fromkeys([*flows, *yields]))


NO_FIGURES = MacroEvidence(0, EtfSeries("", ()), (), ())


class FlowWeek(NamedTuple):
    """Five days of ETF flow without a gap."""

    days: Sequence[EtfDay]
    coverage: str
    flows: Sequence[float]
    """The flow of each day, in USD."""

    flow_usd: float
    share_pct: float
    """The flow in percent of the newest day's assets."""

    @property
    def coverage_text(self) -> str:
        """The funds that count, and whether some of these days are from the operator's file."""
        is_given = any(is_imported(day.source) for day in self.days)
        return f"{self.coverage}, from the operator's file" if is_given else self.coverage

    @property
    def inflow_days(self) -> int:
        """How many days had inflows."""
        return sum(flow > 0 for flow in self.flows)

    @property
    def outflow_days(self) -> int:
        """How many days had outflows."""
        return sum(flow < 0 for flow in self.flows)

    @property
    def side(self) -> Literal["inflows", "outflows"] | None:
        """The direction of a large flow that most days share."""
        if self.share_pct >= ENTER_PCT and self.inflow_days >= STREAK_DAYS:
            return "inflows"
        if self.share_pct <= -ENTER_PCT and self.outflow_days >= STREAK_DAYS:
            return "outflows"
        return None


class CurveChange(NamedTuple):
    """A change over `LOOK_BACK` days in points, and in units of the usual move."""

    points: float
    moves: float


class YieldCurve(NamedTuple):
    """The newest yields in percent, and how they moved."""

    day: str
    us10y: float
    us10y_change: CurveChange
    slope: float
    slope_change: CurveChange
    move: str
    """In words with hyphens, such as `bear-steepening`."""


class CurveTurn(NamedTuple):
    """The day on which the slope changed its sign, and the last day before it."""

    before: DayValue
    after: DayValue
    us10y: float
    us3m: float


def flow_week(evidence: MacroEvidence) -> FlowWeek | None:
    """The newest five days of flow."""
    days = evidence.etf.days
    if len(days) < NEEDED_FLOW_DAYS:
        return None
    if not is_recent(days[-1].day, day_of(evidence.at), trading_days):
        return None
    return complete_week(evidence.etf, len(days))


def flow_regime(series: EtfSeries) -> FlowRegime:
    """The regime after all known days."""
    regime: FlowRegime = "mixed"
    for end in range(FLOW_DAYS, len(series.days) + 1):
        week = complete_week(series, end)
        if week is not None:
            regime = next_flow_regime(week, regime)
    return regime


def next_flow_regime(week: FlowWeek, previous: str | None) -> FlowRegime:
    """The regime after five days of flow, given the regime before them (hysteresis)."""
    if week.side is not None:
        return "accumulation" if week.side == "inflows" else "distribution"
    if previous == "accumulation" and week.share_pct >= LEAVE_PCT:
        return "accumulation"
    if previous == "distribution" and week.share_pct <= -LEAVE_PCT:
        return "distribution"
    return "mixed"


def complete_week(series: EtfSeries, end: int) -> FlowWeek | None:
    """The five days before index `end`, if all flows are known and no trading day is missing."""
    week = series.days[end - FLOW_DAYS : end]
    flows = [day.net_flow_usd for day in week if day.net_flow_usd is not None]
    days = {date.fromisoformat(day.day) for day in week}
    if len(flows) < FLOW_DAYS or not set(trading_days(min(days), max(days))) <= days:
        return None
    assets = week[-1].aum_usd
    if assets <= 0:
        return None
    flow = round(sum(flows), 2)
    return FlowWeek(week, series.coverage, flows, flow, round(100 * flow / assets, 4))


def yield_curve(evidence: MacroEvidence) -> YieldCurve | None:
    """The curve on the newest day for which both yields are known."""
    slopes = slope10y3m(evidence.us10y, evidence.us3m)
    both = {slope.day for slope in slopes}
    long = [observation for observation in evidence.us10y if observation.day in both]
    change, slope_change = curve_change(long), curve_change(slopes)
    if change is None or slope_change is None:
        return None
    if not is_recent(slopes[-1].day, day_of(evidence.at)):
        return None
    move = curve_move(change, slope_change).replace(" ", "-")
    return YieldCurve(long[-1].day, long[-1].value, change, slopes[-1].value, slope_change, move)


def curve_change(values: Sequence[RecordedFigure | DayValue]) -> CurveChange | None:
    """The newest change of a yield or slope, compared with its usual move.

    The usual move over `LOOK_BACK` days is the standard deviation of a random walk with these daily
    changes. Their mean size gives it, because squares would let one wild day dominate.
    """
    points = change_over(values, LOOK_BACK)
    recent = values[-1 - USUAL_DAYS :]
    if points is None or len(recent) <= USUAL_DAYS:
        return None
    mean = fsum(abs(after.value - before.value) for before, after in pairwise(recent)) / USUAL_DAYS
    usual = mean * sqrt(pi / 2 * LOOK_BACK)
    return CurveChange(points, round(points / usual, 2) if usual > 0 else 0.0)


def curve_move(change10y: CurveChange, change_slope: CurveChange) -> str:
    """Name a move of the curve: bull or bear, steepening or flattening, or consolidation."""
    words = [
        _direction(change10y.moves, "bear", "bull"),
        _direction(change_slope.moves, "steepening", "flattening"),
    ]
    return " ".join(word for word in words if word) or "consolidation"


def curve_turn(evidence: MacroEvidence) -> CurveTurn | None:
    """The newest change of the slope's sign, if its day is recent.

    Within `DEAD_ZONE` of zero the slope keeps its last sign.
    """
    slopes = slope10y3m(evidence.us10y, evidence.us3m)
    signed = [slope for slope in slopes if abs(slope.value) >= DEAD_ZONE]
    turns = [pair for pair in pairwise(signed) if (pair[0].value > 0) != (pair[1].value > 0)]
    if not turns or not is_recent(turns[-1][1].day, day_of(evidence.at)):
        return None
    before, after = turns[-1]
    yields = [
        next(observation.value for observation in series if observation.day == after.day)
        for series in (evidence.us10y, evidence.us3m)
    ]
    return CurveTurn(before, after, *yields)


def is_recent(day: str, today: date, calendar: Calendar = business_days) -> bool:
    """Whether a day is not in the future, and at most two days of its calendar began after it."""
    start = date.fromisoformat(day)
    since = calendar(start + timedelta(days=1), today)
    return start <= today and sum(1 for _ in since) <= STALE_BUSINESS_DAYS


def day_start(day: str, *, following: bool = False) -> int:
    """When a day begins, or the day after it, in milliseconds."""
    start = date.fromisoformat(day) + timedelta(days=1 if following else 0)
    return int(datetime.combine(start, time(), UTC).timestamp()) * SECOND


def _direction(moves: float, rise: str, fall: str) -> str:
    if abs(moves) < LARGE_MOVE:
        return ""
    return rise if moves > 0 else fall


def day_of(at: int) -> date:
    """The UTC day of an instant."""
    return datetime.fromtimestamp(at // SECOND, UTC).date()

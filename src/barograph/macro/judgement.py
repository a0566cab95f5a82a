"""How daily figures are judged (pure): once, for signals, briefs and stances alike."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from typing import Literal

from barograph.kit.business_days import business_days, trading_days
from barograph.macro.series import EtfDay

FlowRegime = Literal["accumulation", "mixed", "distribution"]

FLOW_DAYS = 5
STREAK_DAYS = 4
NEEDED_FLOW_DAYS = 20
ENTER_PCT, LEAVE_PCT = 0.5, 0.25
"""Flow in percent of assets: a regime is entered at the first and left at the second."""

LOOK_BACK = 20
DEAD_ZONE = 0.05
"""In percentage points: five basis points."""

STALE_BUSINESS_DAYS = 2
"""Figures are too old when more business days than this have begun after their day."""


Calendar = Callable[[date, date], Iterator[date]]


def is_recent(day: str, today: date, calendar: Calendar = business_days) -> bool:
    """Whether a data day is not to come, and at most two days of its calendar began since."""
    start = date.fromisoformat(day)
    since = calendar(start + timedelta(days=1), today)
    return start <= today and sum(1 for _ in since) <= STALE_BUSINESS_DAYS


def whole_week_of_flows(week: Sequence[EtfDay]) -> list[float] | None:
    """The flow of each day, when all are known and no trading day is missing between them."""
    flows = [each.net_flow_usd for each in week if each.net_flow_usd is not None]
    days = {date.fromisoformat(each.day) for each in week}
    if len(flows) < FLOW_DAYS or not set(trading_days(min(days), max(days))) <= days:
        return None
    return flows


def regime(share_pct: float, flows: Sequence[float], previous: str | None) -> FlowRegime:
    """What five days of flow are, for someone who comes from `previous`."""
    positive, negative = sum(each > 0 for each in flows), sum(each < 0 for each in flows)
    if share_pct >= ENTER_PCT and positive >= STREAK_DAYS:
        return "accumulation"
    if share_pct <= -ENTER_PCT and negative >= STREAK_DAYS:
        return "distribution"
    if previous == "accumulation" and share_pct >= LEAVE_PCT:
        return "accumulation"
    if previous == "distribution" and share_pct <= -LEAVE_PCT:
        return "distribution"
    return "mixed"


def curve(change10y: float, change_slope: float) -> str:
    """The move of the curve: bull or bear, steepening or flattening, as far as it moved.

    A change within the dead zone has no direction.
    """
    words = [
        _direction(change10y, "bear", "bull"),
        _direction(change_slope, "steepening", "flattening"),
    ]
    return " ".join(word for word in words if word) or "consolidation"


def _direction(change: float, rise: str, fall: str) -> str:
    if abs(change) < DEAD_ZONE:
        return ""
    return rise if change > 0 else fall

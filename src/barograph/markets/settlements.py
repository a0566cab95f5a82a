"""Settled funding as exchanges report it (pure).

Only an exchange's own history says what was settled, a little after the settlement. The exchange
may revise a rate later.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from msgspec import Struct

from barograph.kit.timestamps import DAY, HOUR
from barograph.venues.records import Origin, Perpetual, Perpetuals, majors_of
from barograph.venues.registry import VENUES

REVISION_DELAY = 2 * HOUR
"""How long a revised rate must stay unchanged before we use it."""

LONGEST_INTERVAL_HOURS = 8.0
"""The interval we assume when none is known: exchanges settle at least this often."""

LATE_REPORT = round(LONGEST_INTERVAL_HOURS * HOUR)
"""A running collector reads each report before the next settlement. A report that it first reads
later than this counts as back-filled."""


MAX_REVISIONS = 10
"""An exchange that reports another rate each time is not believed more often than this."""

SHORTEST_WINDOW = 8 * HOUR
"""Every interval divides eight hours, so at 00:00, 08:00 and 16:00 UTC every contract settles.
Between two of these times, all contracts paid for the same hours."""

WINDOW_DAYS = {"8h": 1 / 3, "24h": 1.0, "7d": 7.0, "30d": 30.0}
"""The windows over which we compare settled funding, in days."""

LONGEST_WINDOW = 30 * DAY
COMPARED_SPAN = 2 * LONGEST_WINDOW + 2 * SHORTEST_WINDOW
"""The longest window and the one before it, for each of the last two ends."""

RATE_DIGITS = 8
DAYS_PER_YEAR = 365


class SettlementReport(NamedTuple):
    """A settled rate as we recorded it: the first report is revision 1, another rate the next."""

    contract: str
    at: int
    revision: int
    funding_rate_pct: float
    read_at: int
    """When this revision was first read."""

    origin: Origin = "measured"
    """Measured if we read the venue before the settlement and the report within `LATE_REPORT`."""


class SettledFunding(NamedTuple):
    """A settlement whose rate is known."""

    contract: str
    at: int
    funding_rate_pct: float
    funding_interval_hours: float
    read_at: int
    is_backfilled: bool = False
    """Whether we weren't reading the venue then, or read the report more than 8 hours later."""


class SettledSums(Struct, frozen=True, array_like=True, gc=False):
    """What one contract settled in the windows that end at `end`, in percent."""

    end: int
    pct_8h: float
    pct_24h: float | None = None
    """As the longer ones, None unless every settlement of the window is known."""

    pct_7d: float | None = None
    pct_30d: float | None = None
    before: tuple[float | None, ...] = (None,) * len(WINDOW_DAYS)
    """As `all_pct`, of the windows of the same length before."""

    @property
    def all_pct(self) -> tuple[float | None, ...]:
        """In the order of `WINDOW_DAYS`."""
        return self.pct_8h, self.pct_24h, self.pct_7d, self.pct_30d


class SettledWindows(Struct, frozen=True):
    """What the contracts of a venue settled in the windows that ended last."""

    contracts: dict[str, tuple[SettledSums, ...]]
    """By the contract's full name, the newest windows first."""


def known_settlements(reports: Sequence[SettlementReport], now: int) -> list[SettledFunding]:
    """The settlements of one contract whose rates are known at `now`.

    `reports` are the newest revisions, oldest first. A report about the future doesn't count, nor a
    rate that was revised shortly before.
    """
    hours = interval_hours([report.at for report in reports])
    return [
        SettledFunding(
            each.contract,
            each.at,
            each.funding_rate_pct,
            hours[each.at],
            each.read_at,
            is_backfilled=each.origin == "backfilled",
        )
        for each in reports
        if each.at <= now and not _is_contested(each, now)
    ]


def bitcoin_contract(reading: Perpetuals | None, venue: str) -> str:
    """The name of a venue's BTC perpetual, from its newest reading if there is one."""
    is_own = reading is not None and reading.venue == venue
    bitcoin = majors_of(reading).get("BTC") if reading is not None and is_own else None
    return VENUES[venue].contract("BTC") if bitcoin is None else bitcoin.contract


def last_settlement(perpetual: Perpetual, now: int) -> int:
    """When a contract last settled, by its newest reading."""
    interval = round(perpetual.funding_interval_hours * HOUR)
    return perpetual.next_funding_time - (interval if perpetual.next_funding_time > now else 0)


def _is_contested(report: SettlementReport, now: int) -> bool:
    return report.revision > 1 and now - report.read_at < REVISION_DELAY


def interval_hours(times: Sequence[int]) -> dict[int, float]:
    """The interval of each settlement, in hours; `times` are in order.

    It is the time since the settlement before, or else until the next one. A gap longer than those
    on both sides, or than any interval, means that a settlement is missing.
    """
    gaps = [inf, *((later - at) / HOUR for at, later in pairwise(times)), inf]
    found = {}
    for place, at in enumerate(times):
        earlier, before, after = gaps[max(0, place - 1)], gaps[place], gaps[place + 1]
        likely = (min(before, max(earlier, after)), after)
        known = (hours for hours in likely if hours <= LONGEST_INTERVAL_HOURS)
        found[at] = next(known, LONGEST_INTERVAL_HOURS)
    return found


def settled_windows(reports: Sequence[SettlementReport], now: int) -> dict[int, float]:
    """What was settled in each window of eight hours, in percent, by its end.

    Windows in which a settlement is unknown are left out: those that the intervals of the known
    ones don't fill. The first settlement, and one after a longer interval than before, count once
    the next is known, which tells whether a report is missing.
    """
    hours = interval_hours([report.at for report in reports])
    *_, before, newest = 0.0, 0.0, *hours.values()
    if newest > before:
        reports = reports[:-1]
    windows: dict[int, list[SettlementReport]] = defaultdict(list)
    for report in reports:
        windows[-(-report.at // SHORTEST_WINDOW) * SHORTEST_WINDOW].append(report)
    sums = {}
    for end, known in windows.items():
        is_whole = sum(hours[each.at] for each in known) * HOUR == SHORTEST_WINDOW
        is_over = known[-1].at == end <= now
        if is_whole and is_over and not any(_is_contested(each, now) for each in known):
            sums[end] = round(sum(each.funding_rate_pct for each in known), RATE_DIGITS)
    return sums


def window_sums(windows: Mapping[int, float], now: int) -> tuple[SettledSums, ...]:
    """What was settled over each of `WINDOW_DAYS` up to the last two ends, newest first.

    Just after a settlement, not every venue has reported the newest.
    """
    newest = now // SHORTEST_WINDOW * SHORTEST_WINDOW
    _, day, week, month = days = WINDOW_DAYS.values()
    return tuple(
        SettledSums(
            end,
            windows[end],
            *(_sum(windows, end, day), _sum(windows, end, week), _sum(windows, end, month)),
            tuple(_sum(windows, end - round(each * DAY), each) for each in days),
        )
        for end in (newest, newest - SHORTEST_WINDOW)
        if end in windows
    )


def _sum(windows: Mapping[int, float], end: int, days: float) -> float | None:
    ends = range(end, end - round(days * DAY), -SHORTEST_WINDOW)
    if not all(each in windows for each in ends):
        return None
    return round(sum(windows[each] for each in ends), RATE_DIGITS)


def yearly(pct: float | None, days: float) -> float | None:
    """What was settled over so many days, per year, without compounding."""
    return None if pct is None else round(pct * DAYS_PER_YEAR / days, RATE_DIGITS)

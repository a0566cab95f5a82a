"""The evidence that rules judge by: one reading, and the record of the weeks before it (pure)."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.failover import Switch
from barograph.markets.liquidations import LiquidationHour, LiquidationTotals
from barograph.markets.regime import Regime
from barograph.markets.settlements import RATE_DIGITS, SHORTEST_WINDOW, SettledFunding
from barograph.venues.records import MAJORS, Frame, PastValues, Perpetual, Perpetuals
from barograph.venues.registry import BYBIT
from barograph.venues.spans import WatchedSpans

TRAILING = 30 * DAY
"""How far back rules look, in milliseconds: 720 hours, the newest included."""

HOURS_PER_DAY = 24
WEEK_OF_HOURS = 7 * HOURS_PER_DAY
FORTNIGHT_OF_HOURS = 14 * HOURS_PER_DAY
FORTNIGHT_OF_WINDOWS = 14 * DAY // SHORTEST_WINDOW
HOURS_PER_YEAR = 365 * HOURS_PER_DAY
MIN_VENUES = 2
SPIKE = 4.45
"""Three standard deviations of a normal distribution, in medians of the absolute value."""

NEARLY_ALL = 0.9
"""A text names a period without the number of its hours if this share of them is recorded."""

_at = attrgetter("at")


class Hour(NamedTuple):
    """One major at the start of one hour."""

    at: int
    last_price: float
    open_interest_usd: float | None
    long_account_pct: float | None
    recorded_coins: float | None = None
    """Open interest in coins, if the exchange gave it."""

    is_backfilled: bool = False
    """Whether it comes from the exchange's history instead of our own readings."""

    funding_8h_pct: float | None = None
    volatility_pct: float | None = None
    """Realised volatility of the 24 hours before; `TrailingRecord` fills it in."""

    @property
    def open_interest_coins(self) -> float | None:
        """Open interest in coins, which a price change alone doesn't move."""
        return _coins(self.recorded_coins, self)


class Outage(NamedTuple):
    """A time without readings: from the last one to the one that ended it."""

    since: int
    until: int
    kind: str | None
    """How the exchange failed; None if it didn't: the collector was down, or storing failed."""

    venue: str = BYBIT
    """The one that was in use. Another may have ended the outage."""


class FundingSpread(NamedTuple):
    """How far the settled funding of an asset differs between venues over the same eight hours."""

    end: int
    """When the eight hours ended, in milliseconds since the Unix epoch."""

    rates: Mapping[str, float]
    """What each venue settled in these hours, in percent; at least two."""

    sources: Sequence[str]
    """The published `source` of each venue."""

    windows: Sequence[float]
    """The spreads of the windows of the last 30 days in which all these venues are known, this one
    included, narrowest first."""

    @property
    def ends(self) -> tuple[str, str]:
        """The venues with the lowest and the highest rate."""
        rate = self.rates.__getitem__
        return min(self.rates, key=rate), max(self.rates, key=rate)

    @property
    def spread_pct(self) -> float:
        """The highest rate less the lowest, in percent per eight hours."""
        return _spread(self.rates.values())

    @property
    def rank(self) -> float:
        """The percentile of the spread among the windows."""
        return percentile_rank(self.spread_pct, self.windows)


SettledRecord = Mapping[str, Mapping[str, Mapping[int, float]]]
"""What was settled in each eight hours, by asset, venue and end."""


def funding_spreads(
    readings: Mapping[str, Perpetuals], record: SettledRecord
) -> dict[str, FundingSpread]:
    """The spreads of BTC, ETH and SOL, by asset, in the newest eight hours that all venues know.

    `readings` are the newest of the venues, by venue: only fresh ones with undisputed funding. If
    their reports are late, the eight hours before count, but no earlier ones; a venue that knows
    neither is left out.
    """
    spreads = {}
    oldest = min((each.as_of for each in readings.values()), default=0) - 2 * SHORTEST_WINDOW
    for asset in MAJORS:
        listed = {
            name: windows
            for name, windows in record.get(asset, {}).items()
            if name in readings and max(windows, default=0) > oldest
        }
        if len(listed) < MIN_VENUES:
            continue
        ends = sorted(frozenset.intersection(*map(frozenset, listed.values())))
        if ends and ends[-1] > oldest:
            rates = {name: windows[ends[-1]] for name, windows in listed.items()}
            compared = ends[bisect_right(ends, ends[-1] - TRAILING) :]
            past = sorted(_spread(each[end] for each in listed.values()) for end in compared)
            sources = [readings[name].source for name in rates]
            spreads[asset] = FundingSpread(ends[-1], rates, sources, past)
    return spreads


def _spread(rates: Iterable[float]) -> float:
    known = list(rates)
    return round(max(known) - min(known), RATE_DIGITS)


class TrailingRecord:
    """The hourly record of the majors and of liquidations, as far back as rules look."""

    def __init__(self) -> None:
        self._majors: dict[str, _MajorHours] = defaultdict(_MajorHours)
        self._liquidations: list[LiquidationHour] = []
        self._totals: dict[float, list[float]] = {}
        self._covered: dict[float, list[LiquidationHour]] = {}
        """Both are caches by the coverage that they need, because every reading asks for them."""

        self.disputed_sides = WatchedSpans()
        """When the sides of liquidations were disputed. Their sums count all the same."""

        self.settled: dict[str, Sequence[SettledFunding]] = {}
        """The known settlements of each major, by contract, oldest first."""

    def add_hour(self, base: str, hour: Hour) -> None:
        """Add an hour of a major; hours come in order and once."""
        self._majors[base].add(hour)

    def add_price(self, base: str, at: int, price: float) -> None:
        """Add the price of an hour that is too old to be compared with."""
        self._majors[base].add_price(at, price)

    def add_liquidation_hour(self, hour: LiquidationHour) -> None:
        """Add an hour of liquidations."""
        known = self._liquidations
        if known and hour.at <= known[-1].at:
            return
        known.append(hour)
        for min_pct, covered in self._covered.items():
            if hour.watched_pct >= min_pct:
                covered.append(hour)
        for min_pct, totals in self._totals.items():
            if hour.watched_pct >= min_pct:
                insort(totals, hour.total_usd)
        self._drop_liquidations(slice(bisect_right(known, hour.at - TRAILING, key=_at)))

    def forget_after(self, latest: int) -> None:
        """Drop hours from the future, left by a clock that has been set back since."""
        for hours in self._majors.values():
            hours.forget_after(latest)
        self._drop_liquidations(_after(self._liquidations, latest))

    def hours(self, base: str, since: int = 0) -> Sequence[Hour]:
        """The hours of a major from `since` on, oldest first."""
        hours = self._majors[base].hours
        return hours[bisect_left(hours, since, key=_at) :]

    def prices(self, base: str) -> Iterator[tuple[int, float]]:
        """The time and the price of every recorded hour of a major, oldest first."""
        return zip(self._majors[base].times, self._majors[base].prices, strict=True)

    def volatility(self, base: str) -> Sequence[float]:
        """The realised volatility of a major at each hour that has one, lowest first."""
        return self._majors[base].volatility

    def long_accounts(self, base: str) -> Sequence[float]:
        """The long-account share of a major at each hour that has one, lowest first."""
        return self._majors[base].long_accounts

    @property
    def newest_liquidation_hour(self) -> int | None:
        """The start of the last hour of liquidations, whatever its coverage."""
        return self._liquidations[-1].at if self._liquidations else None

    def liquidation_hours(self, min_watched_pct: float) -> Sequence[LiquidationHour]:
        """The hours with enough coverage to compare with."""
        covered = self._covered.get(min_watched_pct)
        if covered is None:
            covered = [hour for hour in self._liquidations if hour.watched_pct >= min_watched_pct]
            self._covered[min_watched_pct] = covered
        return covered

    def liquidation_totals(self, min_watched_pct: float) -> Sequence[float]:
        """The USD totals of those hours, lowest first."""
        totals = self._totals.get(min_watched_pct)
        if totals is None:
            totals = sorted(hour.total_usd for hour in self.liquidation_hours(min_watched_pct))
            self._totals[min_watched_pct] = totals
        return totals

    def signed_before(self, settled: SettledFunding) -> SettledFunding | None:
        """The last settlement of the same contract before that one at a rate other than zero."""
        earlier = (
            each
            for each in reversed(self.settled.get(settled.contract, ()))
            if each.at < settled.at and each.funding_rate_pct != 0
        )
        return next(earlier, None)

    def _drop_liquidations(self, part: slice) -> None:
        for hour in self._liquidations[part]:
            for min_pct, covered in self._covered.items():
                if hour.watched_pct >= min_pct:
                    covered.remove(hour)
            for min_pct, totals in self._totals.items():
                if hour.watched_pct >= min_pct:
                    _remove(totals, hour.total_usd)
        del self._liquidations[part]


class _MajorHours:
    """The hours of one major, oldest first.

    Rules ask for ranks among a month of hours at every reading, so the compared values are kept
    sorted.
    """

    def __init__(self) -> None:
        self.hours: list[Hour] = []
        self.volatility: list[float] = []
        self.long_accounts: list[float] = []
        # The prices of years: an array takes an eighth of the memory of a list of pairs.
        self.times, self.prices = array("q"), array("d")

    def add_price(self, at: int, price: float) -> None:
        self.times.append(at)
        self.prices.append(price)

    def add(self, hour: Hour) -> None:
        hours = self.hours
        if hours and hour.at <= hours[-1].at:
            return
        day = [*hours[bisect_left(hours, hour.at - DAY, key=_at) :], hour]
        volatility = realised_volatility(day)
        hours.append(hour._replace(volatility_pct=volatility))
        self.add_price(hour.at, hour.last_price)
        if volatility is not None:
            insort(self.volatility, volatility)
        if hour.long_account_pct is not None:
            insort(self.long_accounts, hour.long_account_pct)
        self._drop(slice(bisect_right(hours, hour.at - TRAILING, key=_at)))

    def forget_after(self, latest: int) -> None:
        self._drop(_after(self.hours, latest))
        later = slice(bisect_right(self.times, latest), None)
        del self.times[later], self.prices[later]

    def _drop(self, part: slice) -> None:
        for hour in self.hours[part]:
            if hour.volatility_pct is not None:
                _remove(self.volatility, hour.volatility_pct)
            if hour.long_account_pct is not None:
                _remove(self.long_accounts, hour.long_account_pct)
        del self.hours[part]


class MarketEvidence(NamedTuple):
    """Everything that a rule may look at when a reading arrives."""

    reading: Perpetuals
    majors: Mapping[str, Perpetual]
    """BTC, ETH and SOL, if listed, by base asset."""

    long_account_pct: Mapping[str, float]
    """Fresh long-account shares of the majors, by base asset."""

    regime: Regime
    previous_regime: Regime | None
    liquidations: LiquidationTotals
    last_hour: LiquidationHour
    """The newest sixty whole minutes in which we can't have missed anything."""

    min_watched_pct: float
    """Liquidations of a span with less coverage than this count as unknown."""

    trailing: TrailingRecord
    closed_hour: LiquidationHour | None
    """The hour that ended last, if this is the first reading that knows all of it."""

    closed_hour_assets: Sequence[tuple[str, float]]
    """The assets of that hour with their liquidations in USD, largest first."""

    settlements: Sequence[SettledFunding]
    """Settlements of the majors that the exchange reported since the last reading."""

    outage: Outage | None
    """The time without readings that this reading ended."""

    day_ago: Frame = Frame()
    """What 24-hour changes compare with: a reading within 5 minutes of then, or an empty one."""

    lacks_liquidations: bool = False
    """Whether there are no totals of liquidations at this venue, which is no failure."""

    lacks_long_accounts: bool = False
    switch: Switch | None = None
    """The change of venue that made this reading the published one."""

    spreads: Mapping[str, FundingSpread] | None = None
    """By asset, for BTC, ETH and SOL if at least two venues report the same eight hours. None if
    this instance reads only one venue."""

    def day_before(self, base: str) -> PastValues | None:
        """A major 24 hours before; None if it is unknown."""
        major = self.majors.get(base)
        return None if major is None else self.day_ago.contracts.get(major.contract)


def realised_volatility(hours: Sequence[Hour]) -> float | None:
    """Annualised volatility of 24 hourly log returns, in percent; None without a full day.

    One price of the day is left out if it looks wrong: the returns before and after it are above
    `SPIKE`, and one takes back at least half of the other. They then count as one return over two
    hours. That keeps the expected sum of squares, so it needs no correction: over simulated days
    the result is 0.1 % low for normal returns, 1.2 % for fat tails (Student's t, four degrees of
    freedom) and 3 % if volatility comes in clusters too. The first and the last return, whose
    neighbour is not known, count up to `SPIKE`.

    The alternatives are worse: bipower variation assumes that no two jumps are neighbours, which a
    wrong price makes, and truncation leaves out every large move, also real ones.
    """
    returns = [
        log(later.last_price / earlier.last_price)
        for earlier, later in pairwise(hours)
        if later.at - earlier.at == HOUR
    ]
    if len(returns) < HOURS_PER_DAY:
        return None
    limit = SPIKE * median(map(abs, returns))
    spikes = [
        (min(abs(one), abs(other)), number)
        for number, (one, other) in enumerate(pairwise(returns))
        if abs(one + other) <= min(abs(one), abs(other))
    ]
    size, place = max(spikes, default=(0.0, 0))
    if size > limit:
        returns[place : place + 2] = [returns[place] + returns[place + 1]]
    for end in (0, -1):
        returns[end] = min(abs(returns[end]), limit)
    squares = sum(change * change for change in returns) / HOURS_PER_DAY
    return 100 * sqrt(squares * HOURS_PER_YEAR)


def percentile_rank(value: float, ordered: Sequence[float]) -> float:
    """The mid-rank of a value among sorted ones, in percent; ties count half."""
    below, not_above = bisect_left(ordered, value), bisect_right(ordered, value)
    return 100 * (below + (not_above - below) / 2) / len(ordered)


def compared_period(hours: Sequence[Hour | LiquidationHour], at: int) -> str:
    """The time that recorded hours cover until `at`, in words, such as `the past 30 days`."""
    days = (at - hours[0].at + HOUR) // DAY  # a value stands for the hour before it
    period = f"the past {days} days"
    if len(hours) >= NEARLY_ALL * HOURS_PER_DAY * days:
        return period
    return f"the {len(hours)} recorded hours of {period}"


def change_pct(before: float, after: float) -> float:
    """The change from one value to another, in percent of the first."""
    return 100 * (after - before) / before


def coins_change_pct(before: PastValues | None, now: Perpetual | None) -> float | None:
    """The change of open interest in coins, in percent; None if either value is unknown or zero."""
    coins_before = None if before is None else open_interest_coins(before)
    coins = None if now is None else open_interest_coins(now)
    if coins_before is None or coins_before <= 0 or coins is None:
        return None
    return change_pct(coins_before, coins)


def backfill_basis(compared: Sequence[Hour]) -> str | None:
    """Which of the hours that a value is compared with we did not measure; None if none."""
    filled, total = sum(hour.is_backfilled for hour in compared), len(compared)
    if not filled:
        return None
    hours = f"All {total} hours" if filled == total else f"{filled} of the {total} hours"
    return f"{hours} it is compared with come from the exchange's own history."


def open_interest_coins(seen: PastValues | Perpetual) -> float | None:
    """Open interest in coins: as the exchange gave it, or from its value at the last price."""
    return _coins(seen.open_interest_coins, seen)


def _coins(given: float | None, seen: Hour | PastValues | Perpetual) -> float | None:
    if given is not None or seen.open_interest_usd is None:
        return given
    return seen.open_interest_usd / seen.last_price


def _after(hours: Sequence[Hour | LiquidationHour], latest: int) -> slice:
    return slice(bisect_right(hours, latest, key=_at), None)


def _remove(ordered: list[float], value: float) -> None:
    del ordered[bisect_left(ordered, value)]

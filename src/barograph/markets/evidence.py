"""The evidence that rules judge by: one reading, and the record of the weeks before it (pure)."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt
from operator import attrgetter
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.failover import Switch
from barograph.markets.liquidations import LiquidationHour, LiquidationTotals
from barograph.markets.records import MAJORS, Frame, PastValues, Perpetual, Perpetuals, majors_of
from barograph.markets.regime import Regime

TRAILING = 30 * DAY
"""How far back rules look, in milliseconds."""

HOURS_PER_DAY = 24
WEEK_OF_HOURS = 7 * HOURS_PER_DAY
FORTNIGHT_OF_HOURS = 14 * HOURS_PER_DAY
HOURS_PER_YEAR = 365 * HOURS_PER_DAY
MIN_VENUES = 2
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


class FundingSettlement(NamedTuple):
    """The last rate that we read before a contract's funding was settled at `at`."""

    contract: str
    at: int
    funding_rate_pct: float
    funding_interval_hours: float
    read_at: int


class Outage(NamedTuple):
    """A time without readings: from the last one to the one that ended it."""

    since: int
    until: int
    kind: str | None
    """How the exchange failed; None if it didn't: the collector was down, or storing failed."""


class SpreadHour(NamedTuple):
    """The spread of funding between venues at the start of one hour."""

    spread_pct: float
    is_backfilled: bool = False


class FundingSpread(NamedTuple):
    """How far an asset's funding rates differ between venues, now and in the hours before."""

    rates: Mapping[str, float]
    """In percent per eight hours, by venue; at least two."""

    sources: Sequence[str]
    """The published `source` of each venue."""

    hours: Sequence[SpreadHour]
    """The recorded hours in which the same venues have a rate, narrowest spread first."""

    @property
    def ends(self) -> tuple[str, str]:
        """The venues with the lowest and the highest rate."""
        ordered = sorted(self.rates, key=self.rates.__getitem__)
        return ordered[0], ordered[-1]

    @property
    def spread_pct(self) -> float:
        """The highest rate less the lowest, in percent per eight hours."""
        return max(self.rates.values()) - min(self.rates.values())

    @property
    def rank(self) -> float:
        """The percentile of the spread among the hours."""
        return percentile_rank(self.spread_pct, [hour.spread_pct for hour in self.hours])


class SpreadRecord:
    """The funding rates of the majors at every venue, by hour."""

    def __init__(self) -> None:
        self._rates: dict[str, dict[int, dict[str, tuple[float, bool]]]] = {}
        self._hours: dict[tuple[str, frozenset[str]], list[SpreadHour]] = {}

    def add(
        self, venue: str, asset: str, at: int, funding_8h_pct: float, *, is_backfilled: bool = False
    ) -> None:
        """Add the rate of an hour, in percent per eight hours."""
        rates = self._rates.setdefault(asset, {})
        rates.setdefault(at, {})[venue] = funding_8h_pct, is_backfilled
        self._hours.clear()

    def hours(self, asset: str, venues: Iterable[str]) -> list[SpreadHour]:
        """The hours in which all these venues have a rate, narrowest spread first."""
        wanted = frozenset(venues)
        if (asset, wanted) not in self._hours:
            hours = []
            for rates in self._rates.get(asset, {}).values():
                if wanted <= rates.keys():
                    values, is_backfilled = zip(*(rates[venue] for venue in wanted), strict=True)
                    hours.append(SpreadHour(max(values) - min(values), any(is_backfilled)))
            self._hours[asset, wanted] = sorted(hours)
        return self._hours[asset, wanted]


def funding_spreads(
    readings: Mapping[str, Perpetuals], record: SpreadRecord
) -> dict[str, FundingSpread]:
    """The spreads of BTC, ETH and SOL, by asset.

    `readings` are the newest of the venues, by venue: only fresh ones with undisputed funding.
    """
    majors = {venue: majors_of(reading) for venue, reading in readings.items()}
    spreads = {}
    for asset in MAJORS:
        listed = {venue: known[asset] for venue, known in majors.items() if asset in known}
        if len(listed) >= MIN_VENUES:
            rates = {venue: major.funding_8h_pct for venue, major in listed.items()}
            sources = [readings[venue].source for venue in rates]
            spreads[asset] = FundingSpread(rates, sources, record.hours(asset, rates))
    return spreads


class TrailingRecord:
    """The hourly record of the majors and of liquidations, as far back as rules look."""

    def __init__(self) -> None:
        self._majors: dict[str, _MajorHours] = defaultdict(_MajorHours)
        self._liquidations: list[LiquidationHour] = []
        self._totals: dict[float, list[float]] = {}
        self._settled: dict[str, FundingSettlement] = {}
        self._signed: dict[str, FundingSettlement] = {}

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
        for min_pct, totals in self._totals.items():
            if hour.watched_pct >= min_pct:
                insort(totals, hour.total_usd)
        self._drop_liquidations(slice(bisect_left(known, hour.at - TRAILING, key=_at)))

    def add_settlement(self, settlement: FundingSettlement) -> None:
        """Add a settlement; only the newest of each contract is kept."""
        known = self._settled.get(settlement.contract)
        if known is None or known.at < settlement.at:
            self._settled[settlement.contract] = settlement
            if settlement.funding_rate_pct != 0:
                self._signed[settlement.contract] = settlement

    def forget_after(self, latest: int) -> None:
        """Drop hours from the future, left by a clock that has been set back since."""
        for hours in self._majors.values():
            hours.forget_after(latest)
        self._drop_liquidations(_after(self._liquidations, latest))
        self._settled = {name: each for name, each in self._settled.items() if each.at <= latest}
        self._signed = {name: each for name, each in self._signed.items() if each.at <= latest}

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

    def liquidation_hours(self, min_watched_pct: float) -> list[LiquidationHour]:
        """The hours with enough coverage to compare with."""
        return [hour for hour in self._liquidations if hour.watched_pct >= min_watched_pct]

    def liquidation_totals(self, min_watched_pct: float) -> Sequence[float]:
        """The USD totals of those hours, lowest first."""
        totals = self._totals.get(min_watched_pct)
        if totals is None:
            totals = sorted(hour.total_usd for hour in self.liquidation_hours(min_watched_pct))
            self._totals[min_watched_pct] = totals
        return totals

    def settled(self, contract: str) -> FundingSettlement | None:
        """The newest recorded settlement of a contract."""
        return self._settled.get(contract)

    def settled_with_a_sign(self, contract: str) -> FundingSettlement | None:
        """The newest recorded settlement of a contract at a rate other than zero."""
        return self._signed.get(contract)

    def _drop_liquidations(self, part: slice) -> None:
        for hour in self._liquidations[part]:
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
        self._drop(slice(bisect_left(hours, hour.at - TRAILING, key=_at)))

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

    settlements: Sequence[FundingSettlement]
    """Settlements that this reading is the first to show."""

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
    """By asset, for BTC, ETH and SOL if at least two venues have a fresh rate. None if this
    instance reads only one venue."""

    def day_before(self, base: str) -> PastValues | None:
        """A major 24 hours before; None if it is unknown."""
        major = self.majors.get(base)
        return None if major is None else self.day_ago.contracts.get(major.contract)


def realised_volatility(hours: Sequence[Hour]) -> float | None:
    """Annualised volatility of hourly log returns, in percent; None without a full day."""
    returns = [
        log(later.last_price / earlier.last_price)
        for earlier, later in pairwise(hours)
        if later.at - earlier.at == HOUR
    ]
    if len(returns) < HOURS_PER_DAY:
        return None
    squares = sum(change * change for change in returns) / len(returns)
    return 100 * sqrt(squares * HOURS_PER_YEAR)


def percentile_rank(value: float, ordered: Sequence[float]) -> float:
    """The mid-rank of a value among sorted ones, in percent; ties count half."""
    below, not_above = bisect_left(ordered, value), bisect_right(ordered, value)
    return 100 * (below + (not_above - below) / 2) / len(ordered)


def change_pct(before: float, after: float) -> float:
    """The change from one value to another, in percent of the first."""
    return 100 * (after - before) / before


def coins_change_pct(before: PastValues | None, now: Perpetual | None) -> float | None:
    """The change of open interest in coins, in percent; None if either value is unknown or zero."""
    coins_before = None if before is None else _coins(before.open_interest_coins, before)
    coins = None if now is None else _coins(now.open_interest_coins, now)
    if coins_before is None or coins_before <= 0 or coins is None:
        return None
    return change_pct(coins_before, coins)


def backfill_basis(compared: Sequence[Hour | SpreadHour]) -> str | None:
    """Which of the hours that a value is compared with we did not measure; None if none."""
    filled, total = sum(hour.is_backfilled for hour in compared), len(compared)
    if not filled:
        return None
    hours = f"All {total} hours" if filled == total else f"{filled} of the {total} hours"
    return f"{hours} it is compared with come from the exchange's own history."


def _coins(given: float | None, seen: Hour | PastValues | Perpetual) -> float | None:
    """Open interest in coins: as the exchange gave it, or from its value at the last price."""
    if given is not None or seen.open_interest_usd is None:
        return given
    return seen.open_interest_usd / seen.last_price


def _after(hours: Sequence[Hour | LiquidationHour], latest: int) -> slice:
    return slice(bisect_right(hours, latest, key=_at), None)


def _remove(ordered: list[float], value: float) -> None:
    del ordered[bisect_left(ordered, value)]

"""The published rates and the bitcoin fund of the simulated world at any time.

Like `World`, a pure function of seed, epoch and time. The figures start 120 days before the epoch.
"""

import math
from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from typing import Final, NamedTuple

from barograph.kit.business_days import next_business_day, next_trading_day
from barograph.kit.timestamps import DAY
from barograph_demo.world.randomness import key
from barograph_demo.world.rates import (
    EFFR,
    SOFR,
    BusinessDays,
    OvernightRate,
    OvernightRates,
    SimulatedYields,
    YieldCurves,
    day_of,
    new_york,
    policy,
)
from barograph_demo.world.world import World

BASKET: Final = 40_000
"""Shares are created and redeemed in multiples of this."""

_CLOSE: Final = 16
_COIN: Final = "BTCUSDT"
_DAILY_VOLATILITY: Final = 0.021
_REVERSION: Final = math.log(2) / 120

_FIRST_SHARES: Final = 1_360_000_000
_FIRST_COINS_PER_SHARE: Final = 0.000567
_YEARLY_FEE: Final = 0.0025
_STAYING: Final = 0.82
"""The probability that a streak continues for another day."""

_QUIET: Final = 0.1
_CONTRARY: Final = 0.08


class FundDay(NamedTuple):
    """The fund at the close of a day; money in USD."""

    day: date
    shares: int
    coins: float
    coin_value: float
    cash: float

    @property
    def net_assets(self) -> float:
        """Coins and cash."""
        return round(self.coin_value + self.cash, 2)

    @property
    def nav(self) -> float:
        """The value of a share."""
        return self.net_assets / self.shares


class CoinPrices:
    """The bitcoin price, also before the start of the world."""

    def __init__(self, world: World) -> None:
        contract = world.contract(_COIN, world.epoch)
        if contract is None:
            raise ValueError(f"the world has no {_COIN}")
        self._world = world
        self._contract = contract
        self._random = Random(key(world.seed, "before"))
        self._before = [0.0]

    def at(self, time: int) -> float:
        """The price at a time."""
        age = (self._world.birth - time) / DAY
        if age <= 0.0:
            return self._world.price(self._contract, time)
        whole = int(age)
        while len(self._before) <= whole + 1:
            step = _DAILY_VOLATILITY * self._random.gauss(0.0, 1.0)
            self._before.append(self._before[-1] * (1.0 - _REVERSION) + step)
        left, right = self._before[whole : whole + 2]
        first = self._world.price(self._contract, self._world.birth)
        return first * math.exp(left + (right - left) * (age - whole))


class FundHistory:
    """The fund on every trading day."""

    def __init__(self, world: World, days: BusinessDays) -> None:
        self._days = days
        self._prices = CoinPrices(world)
        self._random = Random(key(world.seed, "fund"))
        self._shares = _FIRST_SHARES
        self._coins_per_share = _FIRST_COINS_PER_SHARE
        self._streak = 1.0
        self._known: list[FundDay] = []

    def first(self, count: int) -> list[FundDay]:
        """The first `count` days, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(len(self._known)))
        return self._known[:count]

    def _step(self, index: int) -> FundDay:
        day = self._days[index]
        if index:
            passed = (day - self._known[-1].day).days
            self._coins_per_share *= 1.0 - _YEARLY_FEE * passed / 365
            self._shares += BASKET * round(self._flow() * self._shares / BASKET)
        coins = round(self._shares * self._coins_per_share, 5)
        value = round(coins * self._prices.at(new_york(day, _CLOSE)), 2)
        cash = round(15_000 + 20_000 * self._random.random(), 2)
        return FundDay(day, self._shares, coins, value, cash)

    def _flow(self) -> float:
        """The day's new shares as a fraction of all; none on quiet days."""
        uniform = self._random.random
        if uniform() > _STAYING:
            self._streak = -self._streak
        size = min(0.02, 0.0016 * math.exp(0.7 * self._random.gauss(0.0, 1.0)))
        if uniform() < _QUIET:
            return 0.0
        direction = self._streak if uniform() > _CONTRARY else -self._streak
        # Over the years the fund keeps about its size.
        home = 0.004 * math.log(_FIRST_SHARES / self._shares)
        return direction * size + home


EARLIER_DAYS: Final = 120
LATE_EVERY: Final = 10
"""One of ten days is published so late that stances on the day before have expired."""


def yields_published_at(day: date) -> int:
    """The Treasury publishes a day's yields in the evening, sometimes only the next morning."""
    if day.toordinal() % LATE_EVERY == LATE_EVERY - 1:
        return new_york(next_business_day(day), 8)
    return new_york(day, 18)


def sofr_published_at(day: date) -> int:
    """SOFR is published on the next business day's morning."""
    return new_york(next_business_day(day), 8)


def sofr_revised_at(day: date) -> int:
    """A revision of SOFR is published in the afternoon after its first publication."""
    return new_york(next_business_day(day), 14, 30)


def effr_published_at(day: date) -> int:
    """EFFR is published an hour after SOFR."""
    return new_york(next_business_day(day), 9)


def fund_published_at(day: date) -> int:
    """The fund's issuer publishes before the next trading day begins."""
    return new_york(next_trading_day(day), 6, 30)


_RELEASES: Final[tuple[tuple[str, Callable[[date], int]], ...]] = (
    ("treasury", yields_published_at),
    ("sofr", sofr_published_at),
    ("effr", effr_published_at),
    ("sofr", sofr_revised_at),
)


class MacroWorld:
    """Yields, overnight rates and the fund, as published at a time."""

    def __init__(self, world: World) -> None:
        epoch = day_of(world.epoch)
        first = epoch - timedelta(days=EARLIER_DAYS)
        self._days = BusinessDays(first)
        self._trading_days = BusinessDays(first, next_trading_day)
        self.policy = policy(world.seed, epoch)
        self._yields = YieldCurves(world.seed, epoch, self._days, self.policy)
        self._sofr = OvernightRates(world.seed, SOFR, self._days, self.policy)
        self._effr = OvernightRates(world.seed, EFFR, self._days, self.policy)
        self._fund = FundHistory(world, self._trading_days)

    def curves(self, at: int) -> list[SimulatedYields]:
        """The published curves, oldest first."""
        return self._yields.first(self._days.published(at, yields_published_at))

    def sofr(self, at: int) -> list[OvernightRate]:
        """The published SOFR rates, oldest first."""
        return self._sofr.first(self._days.published(at, sofr_published_at))

    def effr(self, at: int) -> list[OvernightRate]:
        """The published EFFR rates, oldest first."""
        return self._effr.first(self._days.published(at, effr_published_at))

    def fund(self, at: int) -> list[FundDay]:
        """The fund's published days, oldest first."""
        return self._fund.first(self._trading_days.published(at, fund_published_at))

    def releases(self, after: int, until: int) -> dict[int, set[str]]:
        """When something new was published in a span of time, and by which sources."""
        moments: dict[int, set[str]] = {}
        fund = (("etf", fund_published_at),)
        for days, releases in ((self._days, _RELEASES), (self._trading_days, fund)):
            index = max(0, days.published(after, releases[-1][1]) - 1)
            while days[index] <= day_of(until):
                for source, published_at in releases:
                    moments.setdefault(published_at(days[index]), set()).add(source)
                index += 1
        return {at: moments[at] for at in sorted(moments) if after < at <= until}

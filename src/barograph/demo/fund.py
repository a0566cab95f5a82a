"""A bitcoin fund: shares made and taken back in baskets, coins behind them, a fee.

Investors come and go in streaks. Coins are priced at New York's four o'clock by the world's own
market; for the months before the world was born, by a walk that leads to its first price.
"""

import math
from datetime import date
from random import Random
from typing import Final, NamedTuple

from barograph.demo.chance import key
from barograph.demo.days import Days, new_york
from barograph.demo.paths import HOUR
from barograph.demo.world import World

BASKET: Final = 40_000
"""Shares are made and taken back in multiples of this."""

_DAY: Final = 24 * HOUR
_CLOSE: Final = 16
_COIN: Final = "BTCUSDT"
_DAILY_VOLATILITY: Final = 0.021
_HOME: Final = math.log(2) / 120

_FIRST_SHARES: Final = 1_360_000_000
_FIRST_COINS_A_SHARE: Final = 0.000567
_YEARLY_FEE: Final = 0.0025
_STAYING: Final = 0.82
"""How likely a streak goes on for another day."""
_QUIET: Final = 0.1
_CONTRARY: Final = 0.08


class FundDay(NamedTuple):
    """The fund at the close of a day; money in USD, to the cent."""

    day: date
    shares: int
    coins: float
    coin_value: float
    cash: float

    @property
    def net_assets(self) -> float:
        """Everything that the fund owns."""
        return round(self.coin_value + self.cash, 2)

    @property
    def nav(self) -> float:
        """What a share is worth."""
        return self.net_assets / self.shares


class CoinPrices:
    """The price of a bitcoin also before the birth of the world."""

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
        age = (self._world.birth - time) / _DAY
        if age <= 0.0:
            return self._world.price(self._contract, time)
        whole = int(age)
        while len(self._before) <= whole + 1:
            step = _DAILY_VOLATILITY * self._random.gauss(0.0, 1.0)
            self._before.append(self._before[-1] * (1.0 - _HOME) + step)
        left, right = self._before[whole : whole + 2]
        first = self._world.price(self._contract, self._world.birth)
        return first * math.exp(left + (right - left) * (age - whole))


class Fund:
    """The fund on every business day."""

    def __init__(self, world: World, days: Days) -> None:
        self._days = days
        self._prices = CoinPrices(world)
        self._random = Random(key(world.seed, "fund"))
        self._shares = _FIRST_SHARES
        self._coins_a_share = _FIRST_COINS_A_SHARE
        self._streak = 1.0
        self._known: list[FundDay] = []

    def first(self, count: int) -> list[FundDay]:
        """The first so many days, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(len(self._known)))
        return self._known[:count]

    def _step(self, index: int) -> FundDay:
        day = self._days[index]
        if index:
            passed = (day - self._known[-1].day).days
            self._coins_a_share *= 1.0 - _YEARLY_FEE * passed / 365
            self._shares += BASKET * round(self._flow() * self._shares / BASKET)
        coins = round(self._shares * self._coins_a_share, 5)
        value = round(coins * self._prices.at(new_york(day, _CLOSE)), 2)
        cash = round(15_000 + 20_000 * self._random.random(), 2)
        return FundDay(day, self._shares, coins, value, cash)

    def _flow(self) -> float:
        """The day's new shares as a fraction of all; on quiet days none."""
        uniform = self._random.random
        if uniform() > _STAYING:
            self._streak = -self._streak
        size = min(0.02, 0.0016 * math.exp(0.7 * self._random.gauss(0.0, 1.0)))
        if uniform() < _QUIET:
            return 0.0
        direction = self._streak if uniform() > _CONTRARY else -self._streak
        # Over the years the fund stays within a range of sizes.
        home = 0.004 * math.log(_FIRST_SHARES / self._shares)
        return direction * size + home

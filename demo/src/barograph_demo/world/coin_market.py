"""The market of one coin, hour by hour.

Each hour since the start of the world is simulated once, in order and with the coin's own random
generator, so the result never depends on earlier questions. Within an hour, a Brownian bridge
refined by halving gives the price down to a second.
"""

import math
from array import array
from random import Random
from typing import Final, NamedTuple

from barograph.kit.timestamps import DAY, HOUR
from barograph_demo.world.contracts import CRYPTO, Contract
from barograph_demo.world.randomness import (
    NORMAL,
    QUANTILE_BITS,
    REVERSION,
    STRESS_HOURS,
    CommonMoves,
    key,
    mix,
)

DAY_HOURS: Final = 24

FINE: Final = 12
"""Halvings of an hour until a piece is shorter than a second."""

KNOTS: Final = 16
"""Pieces of an hour at which the extremes of an unfinished hour are sampled."""
KNOT_DEPTH: Final = 4

_PRICE_REVERSION: Final = math.log(2) / (120 * 24)
"""Share of the log-price's distance from its start that it loses per hour. A half-life of 120 days
keeps it plausible forever."""

_SEASON: Final = tuple(math.sin(math.tau * (hour - 9) / DAY_HOURS) for hour in range(DAY_HOURS))
"""How busy each hour of a UTC day is: most at 15:00, least at 03:00."""

_MEAN_LOG_VOLATILITY: Final = -0.42
"""Makes the table's daily volatility the average: volatile hours and jumps count more."""

_FORGETTING: Final = 0.042
"""Share of past returns that traders forget per hour: half of them in 16 hours."""

_CHASING: Final = 0.00011
"""The premium that a return of one typical hour adds, because traders follow returns."""

_HALF_ROOT: Final = math.sqrt(0.5)

# Two multipliers walk the tree of halvings; each node's top bits are its draw. A generator this
# short is good enough for a dozen steps, and the walk is most of the cost.
_LEFT: Final = 0x5851F42D4C957F2D
_RIGHT: Final = 0x2545F4914F6CDD1D
_WORD: Final = (1 << 64) - 1
_TOP: Final = 64 - QUANTILE_BITS

_CACHED_PRICES: Final = 320
"""Prices cached at least: a day of five-minute steps, because tickers show a day's change."""


class MarketState(NamedTuple):
    """A market at one instant; its turnover is that of the last 24 hours."""

    last: float
    premium: float
    interest: float
    turnover: float

    @property
    def index_price(self) -> float:
        """The index price."""
        return self.last / (1.0 + self.premium)

    @property
    def mark_price(self) -> float:
        """The mark price."""
        return self.index_price * (1.0 + 0.9 * self.premium)


class DayChange(NamedTuple):
    """The prices of the last 24 hours, as far as a ticker shows them."""

    day_ago: float
    hour_ago: float
    high: float
    low: float


class CoinMarket:
    """Prices, premium, open interest, long accounts and turnover of one coin."""

    def __init__(self, seed: int, birth: int, contract: Contract, common: CommonMoves) -> None:
        self._seed = seed
        self._birth = birth
        self._coin = contract.coin
        self._common = common
        self._key = key(seed, "bridge", contract.coin)
        self._random = Random(key(seed, "hours", contract.coin))
        self._home = math.log(contract.price)
        self._hourly = contract.daily_volatility / math.sqrt(DAY_HOURS)
        usual = 0.7 if contract.symbol_type in CRYPTO else 0.2
        self._correlation = {"BTC": 0.93, "ETH": 0.87, "SOL": 0.82}.get(contract.coin, usual)
        # With more frequent funding, smaller premiums have the same effect.
        self._premium_scale = {8: 1.0, 4: 0.85}.get(contract.funding_hours, 0.6)
        # Traders close the gap between a major's price and its index sooner.
        self._own_share = {"BTC": 0.0, "ETH": 0.8, "SOL": 0.9}.get(contract.coin, 1.0)
        self._premiums = Random(key(seed, "premium", contract.coin))
        self._lean = self._premiums.gauss(-0.00015, 0.00025)
        self._own_premium = 0.0
        self._independence = math.sqrt(1 - self._correlation**2)
        self._stir = 0.0
        self._noise = 0.0
        self._trend = 0.0
        self._first_hour = birth // HOUR
        self._begin()

    def _begin(self) -> None:
        self.price = array("d", [self._home])
        self.sigma = array("d")
        self.high = array("d")
        self.low = array("d")
        self.jumps: dict[int, tuple[float, float]] = {}
        self.premium = array("d", [0.0001])
        self.premium_sum = array("d", [0.0])
        self.interest = array("d", [0.0])
        self.crowd = array("d", [0.35])
        self.turnover_sum = array("d", [0.0])
        self._recent: dict[int, float] = {}
        self._older: dict[int, float] = {}
        self._partial = (-1, 0, 0.0, 0.0)
        self._latest = (-1, MarketState(0.0, 0.0, 0.0, 0.0))

    def simulate_to(self, hour: int) -> None:
        """Simulate until the start of this hour is known."""
        if len(self.price) <= hour:
            self._common.simulate_to(hour)
            while len(self.price) <= hour:
                self._step(len(self.price) - 1)

    def _step(self, hour: int) -> None:
        """Simulate one hour."""
        bits, common = self._random.getrandbits, self._common
        stress = common.stresses(hour // STRESS_HOURS).get(self._coin)
        strain = 0.0 if stress is None else stress.at(hour)
        season = _SEASON[(hour + self._first_hour) % DAY_HOURS]
        turbulence = common.log_volatility[hour] + self._stir + 0.6 * strain
        sigma = self._hourly * math.exp(turbulence + 0.25 * season + _MEAN_LOG_VOLATILITY)
        jump, at = self._jump(hour, sigma)
        before = self.price[hour]
        diffusion = _PRICE_REVERSION * (self._home - before) + sigma * (
            self._correlation * common.shock[hour]
            + self._independence * NORMAL[bits(QUANTILE_BITS)]
        )
        after = before + diffusion + jump
        self._draw_extremes(before, after - jump, sigma, jump)
        self.price.append(after)
        self.sigma.append(sigma)
        if jump:
            self.jumps[hour] = (jump, at)
        self._stir += -REVERSION * self._stir + 0.06 * NORMAL[bits(QUANTILE_BITS)]
        self._noise += -0.2 * self._noise + 0.00007 * NORMAL[bits(QUANTILE_BITS)]
        self._trend += (after - before) / self._hourly - _FORGETTING * self._trend
        crowding = 0.0 if stress is None else stress.peak * strain
        turnover = 0.1 * (1.0 + 0.35 * season) * math.exp(1.2 * turbulence)
        self._record_positions(hour, (after - before) / sigma, crowding, turnover)

    def _jump(self, hour: int, sigma: float) -> tuple[float, float]:
        """The hour's jump and when in the hour it happens."""
        jump = self._common.jump[hour] * self._correlation
        if self._random.random() < 1 / 170:
            jump += self._random.gauss(0.0, 3.4)
        if not jump:
            return 0.0, 0.0
        # A common jump hits all coins in the same second.
        return jump * sigma, 0.05 + 0.9 * (key(self._seed, "jump", hour) % 3000) / 3000

    def _draw_extremes(self, before: float, after: float, sigma: float, jump: float) -> None:
        """Draw the extremes of the hour's Brownian bridge, which the bridge then respects."""
        square = (after - before) ** 2
        spread = 2.0 * sigma * sigma
        uniform, log = self._random.random, math.log
        up = math.sqrt(square - spread * log(1.0 - uniform()))
        down = math.sqrt(square - spread * log(1.0 - uniform()))
        self.high.append((before + after + up) / 2 + max(0.0, jump))
        self.low.append((before + after - down) / 2 + min(0.0, jump))

    def _stray(self) -> float:
        """A coin's own part of the premium: a lean and a random walk."""
        if self._own_share == 0.0:
            return 0.0
        self._own_premium *= 0.94
        self._own_premium += 0.0001 * NORMAL[self._premiums.getrandbits(QUANTILE_BITS)]
        return self._own_share * (self._lean + self._own_premium)

    def _record_positions(self, hour: int, move: float, crowding: float, turnover: float) -> None:
        """Premium, open interest, long accounts and turnover at the end of the hour."""
        bits = self._random.getrandbits
        chase = _CHASING * self._premium_scale * self._trend
        mood = self._premium_scale * (self._common.sentiment[hour] + self._stray())
        premium = 0.00009 + self._noise + chase + mood + crowding
        self.premium_sum.append(self.premium_sum[hour] + (self.premium[hour] + premium) / 2)
        self.premium.append(premium)
        shaken = 0.02 * max(0.0, abs(move) - 2.5)
        interest = (
            self.interest[hour] * 0.992
            + 0.011 * NORMAL[bits(QUANTILE_BITS)]
            + chase * 1.5
            + abs(crowding) * 3.0
        )
        self.interest.append(max(-1.5, interest - min(0.12, shaken)))
        # Small accounts buy what falls and sell what rises.
        crowd = 0.35 + 0.985 * (self.crowd[hour] - 0.35) - 0.015 * move
        crowd += 0.02 * NORMAL[bits(QUANTILE_BITS)] + 12.0 * chase + 2.0 * crowding
        self.crowd.append(crowd)
        traded = turnover * math.exp(0.15 * min(6.0, abs(move)))
        self.turnover_sum.append(self.turnover_sum[hour] + traded)

    def locate(self, time: int) -> tuple[int, float]:
        """The hour of a time and the fraction of it that has passed."""
        hour, rest = divmod(max(time, self._birth) - self._birth, HOUR)
        if len(self.price) <= hour + 1:
            self.simulate_to(hour + 1)
        return hour, rest / HOUR

    def log_price(self, time: int) -> float:
        """The last traded log-price."""
        known = self._recent.get(time)
        if known is None:
            known = self._older.get(time)
            if known is None:
                hour, along = self.locate(time)
                known = self.bridge(hour, along) if along else self.price[hour]
            if len(self._recent) >= _CACHED_PRICES:
                self._older, self._recent = self._recent, {}
            self._recent[time] = known
        return known

    def bridge(self, hour: int, along: float, depth: int = FINE) -> float:
        """The log-price within an hour, after `depth` halvings."""
        jump, struck = self.jumps.get(hour, (0.0, 0.0))
        left, right = self.price[hour], self.price[hour + 1] - jump
        scale = 0.5 * self.sigma[hour]
        state = mix(self._key ^ hour) | 1
        rest = along
        for _ in range(depth):
            middle = (left + right) / 2 + scale * NORMAL[state >> _TOP]
            rest += rest
            if rest < 1.0:
                right = middle
                state = (state * _LEFT) & _WORD
            else:
                left = middle
                rest -= 1.0
                state = (state * _RIGHT) & _WORD
            scale *= _HALF_ROOT
        value = left + (right - left) * rest
        # Reflect values that would leave the hour's extremes.
        high = self.high[hour] - max(0.0, jump)
        low = self.low[hour] - min(0.0, jump)
        if value > high:
            value = max(low, high + high - value)
        elif value < low:
            value = min(high, low + low - value)
        return value + jump if jump and along >= struck else value

    def _day_range(self, hour: int, along: float, last: float) -> tuple[float, float]:
        """The highest and lowest log-price of the last 24 hours."""
        first = max(0, hour - DAY_HOURS + (1 if along else 0))
        high = max(self.high[first:hour], default=last)
        low = min(self.low[first:hour], default=last)
        if along:
            top, bottom = self._hour_range(hour, int(along * KNOTS))
            high, low = max(high, top), min(low, bottom)
        return high, low

    def _hour_range(self, hour: int, knots: int) -> tuple[float, float]:
        """The extremes of an unfinished hour, cached because time advances in small steps."""
        known, done, high, low = self._partial
        if known != hour or done > knots:
            done, high, low = 0, self.price[hour], self.price[hour]
        for knot in range(done + 1, knots + 1):
            value = self.bridge(hour, knot / KNOTS, KNOT_DEPTH)
            high, low = max(high, value), min(low, value)
        self._partial = (hour, knots, high, low)
        return high, low

    def state(self, time: int) -> MarketState:
        """The market now, cached because several contracts and venues share a coin."""
        if self._latest[0] == time:
            return self._latest[1]
        hour, along = self.locate(time)
        yesterday = max(0, hour - DAY_HOURS)
        turnover = self.turnover_sum[hour] - self.turnover_sum[yesterday]
        premium, interest = self.premium[hour], self.interest[hour]
        if along:
            ahead = self.turnover_sum[hour + 1] - self.turnover_sum[yesterday + 1]
            turnover += (ahead - turnover) * along
            premium += (self.premium[hour + 1] - premium) * along
            interest += (self.interest[hour + 1] - interest) * along
        last = math.exp(self.log_price(time))
        self._latest = time, MarketState(last, premium, math.exp(interest), turnover)
        return self._latest[1]

    def day_change(self, time: int) -> DayChange:
        """What a ticker shows of the last 24 hours."""
        hour, along = self.locate(time)
        last, day_ago = self.log_price(time), self.log_price(time - DAY)
        high, low = self._day_range(hour, along, last)
        logs = (
            day_ago,
            self.log_price(time - HOUR),
            max(high, day_ago, last),
            min(low, day_ago, last),
        )
        return DayChange(*map(math.exp, logs))

    def mean_premium(self, start: int, end: int) -> float:
        """The average premium since a full hour; the current one if no time has passed."""
        hour, along = self.locate(end)
        first = self.premium[hour]
        if end <= start:
            return first
        slope = self.premium[hour + 1] - first
        until = self.premium_sum[hour] + along * (first + slope * along / 2)
        begin = max(0, (start - self._birth) // HOUR)
        return (until - self.premium_sum[begin]) / (hour + along - begin or 1.0)

    def interest_at(self, time: int) -> float:
        """The logarithm of open interest relative to its typical size."""
        return self._interpolate(self.interest, time)

    def crowd_at(self, time: int) -> float:
        """The log-odds of an account being long."""
        return self._interpolate(self.crowd, time)

    def turnover_until(self, time: int) -> float:
        """Everything traded since the start of the world, in units of typical open interest."""
        return self._interpolate(self.turnover_sum, time)

    def _interpolate(self, series: "array[float]", time: int) -> float:
        hour, along = self.locate(time)
        first = series[hour]
        return first + (series[hour + 1] - first) * along

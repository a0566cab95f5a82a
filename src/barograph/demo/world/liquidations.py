"""Forced closings of positions, which set off one another.

A Hawkes process in its cluster form: in every minute some liquidations happen on their own, more
of them when markets are wild and positions large; each of these sets off others shortly after, and
so on. A cluster belongs to the minute that began it and dies out within `SPAN`, so any stretch of
time can be looked up from the minutes that can reach it.
"""

import math
from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

from barograph.demo.world.contracts import LIVE_SYMBOLS, STANDING, Contract
from barograph.demo.world.paths import HOUR, Path
from barograph.demo.world.randomness import key, mix, unit

MINUTE: Final = 60_000
SPAN: Final = 10 * MINUTE

LONG: Final = "Buy"
SHORT: Final = "Sell"

_STARTS_PER_HOUR: Final = 29.0
_DELAY: Final = 25_000.0
_LARGEST_CLUSTER: Final = 300
_SAME_SIDE: Final = 0.95
_COARSE: Final = 6
_LOOK_BACK: Final = 10 * MINUTE
_MEMORY: Final = 4096


class Liquidation(NamedTuple):
    """One forced closing, as the wire writes it; `side` is the side of the position."""

    time: int
    symbol: str
    side: str
    size: str
    price: str


class _Weather(NamedTuple):
    """What an hour is like: how often clusters begin, how they spread, where they fall."""

    rate: float
    spread: float
    shares: list[float]


class Liquidations:
    """Every liquidation of a world, by time."""

    def __init__(self, seed: int, birth: int, paths: Mapping[str, Path]) -> None:
        self._birth = birth
        self._paths = paths
        self._key = key(seed, "liquidations")
        self._contracts = [c for c in STANDING if c.symbol in LIVE_SYMBOLS or c.quote == "USDC"]
        sizes = [contract.open_interest_usd**0.6 for contract in self._contracts]
        self._sizes = [size / sum(sizes) for size in sizes]
        self._hours: dict[int, _Weather] = {}
        self._minutes: dict[int, tuple[Liquidation, ...]] = {}

    def between(self, start: int, end: int) -> list[Liquidation]:
        """What happened from `start` up to but not including `end`, in order."""
        first = max(start - SPAN, self._birth + HOUR) // MINUTE
        found = [
            event
            for minute in range(first, -(-end // MINUTE))
            for event in self._begun_in(minute)
            if start <= event.time < end
        ]
        found.sort()
        return found

    def _begun_in(self, minute: int) -> tuple[Liquidation, ...]:
        """All clusters that a minute began, each to its end."""
        known = self._minutes.get(minute)
        if known is None:
            if len(self._minutes) >= _MEMORY:
                self._minutes.clear()
            known = self._minutes[minute] = self._begin(minute)
        return known

    def _begin(self, minute: int) -> tuple[Liquidation, ...]:
        weather = self._weather(minute * MINUTE // HOUR)
        state = mix(self._key ^ minute)
        # Most minutes begin nothing; these must not pay for a generator.
        if unit(state) < math.exp(-weather.rate):
            return ()
        random = Random(mix(state))
        events: list[Liquidation] = []
        for _ in range(_at_least_one(random, weather.rate)):
            where = bisect(weather.shares, random.random() * weather.shares[-1])
            contract = self._contracts[min(where, len(self._contracts) - 1)]
            begin = minute * MINUTE + random.randrange(MINUTE)
            events += self._cluster(random, contract, begin, weather.spread)
        return tuple(events)

    def _weather(self, hour: int) -> _Weather:
        known = self._hours.get(hour)
        if known is not None:
            return known
        heats = []
        for contract, size in zip(self._contracts, self._sizes, strict=True):
            path = self._paths[contract.coin]
            at, _ = path.place(hour * HOUR)
            usual = contract.daily_volatility / 4.9
            wild = path.sigma[at] / usual
            moved = abs(path.price[at + 1] - path.price[at]) / usual
            heats.append(size * wild * (0.4 + 0.6 * moved) * math.exp(path.interest[at]))
        shares = list(accumulate(heats))
        rate = _STARTS_PER_HOUR * shares[-1] / 60
        spread = 0.5 + 0.32 * min(1.0, max(0.0, (shares[-1] - 0.8) / 3))
        if len(self._hours) >= _MEMORY:
            self._hours.clear()
        weather = self._hours[hour] = _Weather(rate, spread, shares)
        return weather

    def _cluster(
        self, random: Random, contract: Contract, begin: int, spread: float
    ) -> list[Liquidation]:
        """A liquidation and everything that it sets off, generation after generation."""
        waiting = [(begin, self._side(random, contract, begin))]
        events: list[Liquidation] = []
        while waiting and len(events) < _LARGEST_CLUSTER:
            time, side = waiting.pop()
            events.append(self._event(random, contract, time, side))
            for _ in range(_poisson(random, spread)):
                later = time + 1 + int(random.expovariate(1 / _DELAY))
                if later < begin + SPAN:
                    waiting.append((later, _of_child(random, side)))
        return events

    def _side(self, random: Random, contract: Contract, time: int) -> str:
        """A falling price liquidates longs, a rising one shorts."""
        path = self._paths[contract.coin]
        hour, along = path.place(time)
        earlier, before = path.place(time - _LOOK_BACK)
        move = path.bridge(hour, along, _COARSE) - path.bridge(earlier, before, _COARSE)
        score = move / (path.sigma[hour] * math.sqrt(_LOOK_BACK / HOUR))
        return LONG if random.random() < 1.0 / (1.0 + math.exp(2.2 * score)) else SHORT

    def _event(self, random: Random, contract: Contract, time: int, side: str) -> Liquidation:
        path = self._paths[contract.coin]
        hour, along = path.place(time)
        away = 0.002 + 0.01 * random.random()
        # The bankruptcy price lies where the position's margin is gone.
        away = -away if side == LONG else away
        price = math.exp(path.bridge(hour, along, _COARSE)) * (1 + away)
        usual = 25.0 * contract.open_interest_usd**0.25
        worth = min(contract.open_interest_usd * 0.002, usual * random.paretovariate(1.1))
        step = 10.0**-contract.size_decimals
        size = max(step, math.floor(worth / price / step) * step)
        return Liquidation(
            time,
            contract.symbol,
            side,
            f"{size:.{contract.size_decimals}f}",
            f"{price:.{contract.price_decimals}f}",
        )


def _of_child(random: Random, side: str) -> str:
    """A liquidation mostly sets off others of its own side."""
    if random.random() < _SAME_SIDE:
        return side
    return SHORT if side == LONG else LONG


def _poisson(random: Random, mean: float) -> int:
    """A Poisson number by multiplying fractions; for small means only."""
    bound, product, count = math.exp(-mean), random.random(), 0
    while product > bound:
        product *= random.random()
        count += 1
    return count


def _at_least_one(random: Random, mean: float) -> int:
    """A Poisson number of which it is known that it is not zero."""
    while (count := _poisson(random, mean)) == 0:
        pass
    return count

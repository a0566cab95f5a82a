"""Liquidations, which trigger one another.

A Hawkes process in its cluster form: each minute starts some clusters, more when markets are
volatile and positions large, and each liquidation triggers others. A cluster ends within `SPAN`,
so a span of time needs only the minutes shortly before it. Small positions are liquidated in quiet
minutes too.
"""

import math
from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

from barograph.kit.timestamps import HOUR, MINUTE
from barograph_demo.world.coin_market import CoinMarket
from barograph_demo.world.contracts import LIVE_SYMBOLS, PERPETUALS, Contract
from barograph_demo.world.randomness import key, mix, unit

SPAN: Final = 10 * MINUTE

LONG: Final = "Buy"
SHORT: Final = "Sell"

_STARTS_PER_HOUR: Final = 29.0
_SMALL_PER_MINUTE: Final = 2.0
_SMALL: Final = 0.03
"""The size of small positions, relative to others."""

_DELAY: Final = 25_000.0
_LARGEST_CLUSTER: Final = 300
_SAME_SIDE: Final = 0.95
_COARSE: Final = 6
_LOOK_BACK: Final = 10 * MINUTE
_CACHED: Final = 4096


class SimulatedLiquidation(NamedTuple):
    """One liquidation as on the wire; `side` is the side of the position."""

    time: int
    symbol: str
    side: str
    size: str
    price: str


class _Activity(NamedTuple):
    """An hour: clusters per minute, triggered per liquidation, and each contract's share."""

    rate: float
    spread: float
    shares: list[float]


class Liquidations:
    """Every liquidation of a world, by time."""

    def __init__(
        self, seed: int, birth: int, markets: Mapping[str, CoinMarket], small_from: int
    ) -> None:
        """Small liquidations begin at `small_from`."""
        self._birth = birth
        self._small_from = small_from
        self._markets = markets
        self._key = key(seed, "liquidations")
        self._contracts = [c for c in PERPETUALS if c.symbol in LIVE_SYMBOLS or c.quote == "USDC"]
        sizes = [contract.open_interest_usd**0.6 for contract in self._contracts]
        self._sizes = [size / sum(sizes) for size in sizes]
        self._activity = lru_cache(_CACHED)(self._compute_activity)
        self._started_in = lru_cache(_CACHED)(self._start_clusters)

    def between(self, start: int, end: int) -> list[SimulatedLiquidation]:
        """The liquidations from `start` up to but not including `end`, in order."""
        first = max(start - SPAN, self._birth + HOUR) // MINUTE
        found = [
            event
            for minute in range(first, -(-end // MINUTE))
            for event in self._started_in(minute)
            if start <= event.time < end
        ]
        found.sort()
        return found

    def _start_clusters(self, minute: int) -> tuple[SimulatedLiquidation, ...]:
        """All clusters that start in a minute, each to its end."""
        activity = self._activity(minute * MINUTE // HOUR)
        state = mix(self._key ^ minute)
        events = [] if minute * MINUTE < self._small_from else self._small(minute, activity)
        # Most minutes start nothing, and then creating a generator would be wasted.
        if unit(state) < math.exp(-activity.rate):
            return tuple(events)
        random = Random(mix(state))
        for _ in range(_at_least_one(random, activity.rate)):
            contract, begin = self._contract(random, activity), _within(random, minute)
            events += self._cluster(random, contract, begin, activity.spread)
        return tuple(events)

    def _small(self, minute: int, activity: _Activity) -> list[SimulatedLiquidation]:
        """The small liquidations of a minute, which trigger nothing."""
        random = Random(mix(self._key ^ ~minute))
        events = []
        for _ in range(_poisson(random, _SMALL_PER_MINUTE)):
            contract, time = self._contract(random, activity), _within(random, minute)
            side = self._side(random, contract, time)
            events.append(self._event(random, contract, time, side, _SMALL))
        return events

    def _contract(self, random: Random, activity: _Activity) -> Contract:
        where = bisect(activity.shares, random.random() * activity.shares[-1])
        return self._contracts[min(where, len(self._contracts) - 1)]

    def _compute_activity(self, hour: int) -> _Activity:
        heats = []
        for contract, size in zip(self._contracts, self._sizes, strict=True):
            market = self._markets[contract.coin]
            at, _ = market.locate(hour * HOUR)
            typical = contract.daily_volatility / 4.9
            volatile = market.sigma[at] / typical
            moved = abs(market.price[at + 1] - market.price[at]) / typical
            heats.append(size * volatile * (0.4 + 0.6 * moved) * math.exp(market.interest[at]))
        shares = list(accumulate(heats))
        rate = _STARTS_PER_HOUR * shares[-1] / 60
        spread = 0.5 + 0.32 * min(1.0, max(0.0, (shares[-1] - 0.8) / 3))
        return _Activity(rate, spread, shares)

    def _cluster(
        self, random: Random, contract: Contract, begin: int, spread: float
    ) -> list[SimulatedLiquidation]:
        """A liquidation and everything that it triggers."""
        waiting = [(begin, self._side(random, contract, begin))]
        events: list[SimulatedLiquidation] = []
        while waiting and len(events) < _LARGEST_CLUSTER:
            time, side = waiting.pop()
            events.append(self._event(random, contract, time, side))
            for _ in range(_poisson(random, spread)):
                later = time + 1 + int(random.expovariate(1 / _DELAY))
                if later < begin + SPAN:
                    waiting.append((later, _triggered_side(random, side)))
        return events

    def _side(self, random: Random, contract: Contract, time: int) -> str:
        """A falling price liquidates longs, a rising one shorts."""
        market = self._markets[contract.coin]
        hour, along = market.locate(time)
        earlier, before = market.locate(time - _LOOK_BACK)
        move = market.bridge(hour, along, _COARSE) - market.bridge(earlier, before, _COARSE)
        score = move / (market.sigma[hour] * math.sqrt(_LOOK_BACK / HOUR))
        return LONG if random.random() < 1.0 / (1.0 + math.exp(2.2 * score)) else SHORT

    def _event(
        self, random: Random, contract: Contract, time: int, side: str, scale: float = 1.0
    ) -> SimulatedLiquidation:
        market = self._markets[contract.coin]
        hour, along = market.locate(time)
        away = 0.002 + 0.01 * random.random()
        # At the bankruptcy price the position's margin is gone.
        away = -away if side == LONG else away
        price = math.exp(market.bridge(hour, along, _COARSE)) * (1 + away)
        typical = scale * 25.0 * contract.open_interest_usd**0.25
        worth = min(contract.open_interest_usd * 0.002, typical * random.paretovariate(1.1))
        step = 10.0**-contract.size_decimals
        size = max(step, math.floor(worth / price / step) * step)
        return SimulatedLiquidation(
            time,
            contract.symbol,
            side,
            f"{size:.{contract.size_decimals}f}",
            f"{price:.{contract.price_decimals}f}",
        )


def _within(random: Random, minute: int) -> int:
    return minute * MINUTE + random.randrange(MINUTE)


def _triggered_side(random: Random, side: str) -> str:
    """A liquidation mostly triggers others of its own side."""
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
    """A Poisson number, given that it is not zero."""
    while (count := _poisson(random, mean)) == 0:
        pass
    return count

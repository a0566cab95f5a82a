"""Liquidations, which trigger one another.

A Hawkes process in its cluster form: each minute starts some clusters, most of them where the
price of bitcoin moves and more when positions are large, and each liquidation triggers others. A
cluster ends within `SPAN`, so a span of time needs only the minutes shortly before it. Small
positions are liquidated in quiet minutes too.
"""

import math
from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import Final, NamedTuple

from barograph.kit.timestamps import HOUR, MINUTE
from barograph_demo.world.coin_market import DAY_HOURS, KNOT_DEPTH, KNOTS, CoinMarket
from barograph_demo.world.contracts import LIVE_SYMBOLS, PERPETUALS, Contract
from barograph_demo.world.randomness import key, mix, unit

SPAN: Final = 10 * MINUTE

LONG: Final = "Buy"
SHORT: Final = "Sell"

_STARTS_PER_HOUR: Final = 6.0
_SMALL_PER_MINUTE: Final = 0.5
_SMALL: Final = 0.02
"""The size of small positions, relative to others."""

_LARGEST: Final = 40.0
"""The largest cascade, relative to the liquidations of a typical hour."""

_EVENLY: Final = 0.3
"""The share of clusters that start at any time of the hour, not where the price moves."""

_DELAY: Final = 25_000.0
_LARGEST_CLUSTER: Final = 300
_SAME_SIDE: Final = 0.5
"""How often a triggered liquidation has the side of the first one, whatever the price does."""

_COARSE: Final = 6
_LOOK_BACK: Final = 10 * MINUTE
_ROOT_LOOK_BACK: Final = math.sqrt(_LOOK_BACK / HOUR)
_ROOT_DAY: Final = math.sqrt(DAY_HOURS)
_SHIFT: Final = 8
_LEADER: Final = "BTC"
_CACHED: Final = 4096


class SimulatedLiquidation(NamedTuple):
    """One liquidation as on the wire; `side` is the side of the position."""

    time: int
    symbol: str
    side: str
    size: str
    price: str


class _Activity(NamedTuple):
    """An hour: clusters per minute, triggered per liquidation, and each contract's share.

    There is one rate for each piece of the hour.
    """

    rates: list[float]
    spread: float
    shares: list[float]


class Liquidations:
    """Every liquidation of a world, by time."""

    def __init__(self, seed: int, birth: int, markets: Mapping[str, CoinMarket]) -> None:
        self._birth = birth
        self._markets = markets
        self._key = key(seed, "liquidations")
        self._contracts = [c for c in PERPETUALS if c.symbol in LIVE_SYMBOLS or c.quote == "USDC"]
        sizes = [contract.open_interest_usd**0.6 for contract in self._contracts]
        self._exposures = [
            (markets[each.coin], size / sum(sizes), each.daily_volatility / _ROOT_DAY)
            for each, size in zip(self._contracts, sizes, strict=True)
        ]
        self._positions = {contract: _position(contract) for contract in self._contracts}
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
        """The small liquidations of a minute, and its clusters, each to its end."""
        hour, rest = divmod(minute, 60)
        activity = self._activity(hour)
        rate = activity.rates[rest * KNOTS // 60]
        state = mix(self._key ^ minute)
        count = _poisson(unit(state), _SMALL_PER_MINUTE + rate)
        if not count:  # then creating a generator would be wasted
            return ()
        random = Random(mix(state))
        events = []
        for _ in range(count):
            contract = self._contract(random, activity)
            time = minute * MINUTE + int(random.random() * MINUTE)
            if not contract.is_listed(time):
                continue
            if random.random() * (_SMALL_PER_MINUTE + rate) < rate:
                events += self._cluster(random, contract, time, activity.spread)
            else:
                events.append(self._event(random, contract, time, _SMALL))
        return tuple(events)

    def _contract(self, random: Random, activity: _Activity) -> Contract:
        where = bisect(activity.shares, random.random() * activity.shares[-1])
        return self._contracts[min(where, len(self._contracts) - 1)]

    def _compute_activity(self, hour: int) -> _Activity:
        heats = []
        at, _ = self._markets[_LEADER].locate(hour * HOUR)
        for market, size, typical in self._exposures:
            market.simulate_to(at + 1)
            prices = market.price
            end = prices[at + 1]
            # A move hits most positions where it continues one of the hours before.
            moved = abs((end - prices[at]) * (end - prices[max(0, at - _SHIFT)]))
            heat = 0.4 * market.sigma[at] / typical + 0.4 * moved / (typical * typical)
            heats.append(size * min(_LARGEST, heat) * math.exp(market.interest[at]))
        shares = list(accumulate(heats))
        rate = _STARTS_PER_HOUR * shares[-1] / 60
        spread = 0.5 + 0.32 * min(1.0, max(0.0, (shares[-1] - 0.8) / 3))
        return _Activity([rate * weight for weight in self._weights(hour)], spread, shares)

    def _weights(self, hour: int) -> list[float]:
        """How much more often clusters start in each piece of an hour than on average."""
        market = self._markets[_LEADER]
        at, _ = market.locate(hour * HOUR)
        prices = [market.bridge(at, knot / KNOTS, KNOT_DEPTH) for knot in range(KNOTS)]
        moves = [
            (after - before) ** 2 for before, after in pairwise([*prices, market.price[at + 1]])
        ]
        moving = (1.0 - _EVENLY) * KNOTS / sum(moves)
        return [_EVENLY + moving * move for move in moves]

    def _cluster(
        self, random: Random, contract: Contract, begin: int, spread: float
    ) -> list[SimulatedLiquidation]:
        """A liquidation and everything that it triggers."""
        first = self._event(random, contract, begin)
        events = [first]
        for event in events:
            for _ in range(_poisson(random.random(), spread)):
                later = event.time + 1 + int(random.expovariate(1 / _DELAY))
                if later < begin + SPAN and len(events) < _LARGEST_CLUSTER:
                    side = first.side if random.random() < _SAME_SIDE else None
                    events.append(self._event(random, contract, later, side=side))
        return events

    def _event(
        self,
        random: Random,
        contract: Contract,
        time: int,
        scale: float = 1.0,
        side: str | None = None,
    ) -> SimulatedLiquidation:
        market = self._markets[contract.coin]
        hour, along = market.locate(time)
        last = market.bridge(hour, along, _COARSE)
        if side is None:
            side = self._side(random, contract, time, last)
        away = 0.002 + 0.01 * random.random()
        # At the bankruptcy price the position's margin is gone.
        price = math.exp(last) * (1.0 - away if side == LONG else 1.0 + away)
        usual, most, step, size_format, price_format = self._positions[contract]
        worth = min(most, scale * usual * random.paretovariate(1.1))
        size = max(step, math.floor(worth / price / step) * step)
        return SimulatedLiquidation(
            time, contract.symbol, side, size_format % size, price_format % price
        )

    def _side(self, random: Random, contract: Contract, time: int, last: float) -> str:
        """A price that fell, in the last minutes or hours, liquidates longs; else shorts."""
        market = self._markets[contract.coin]
        hour, along = market.locate(time - _LOOK_BACK)
        earlier = market.bridge(hour, along, _COARSE)
        minutes = (last - earlier) / (market.sigma[hour] * _ROOT_LOOK_BACK)
        hours = (last - market.price[max(0, hour - _SHIFT)]) / contract.daily_volatility
        longs = 1.0 / (1.0 + math.exp(3.0 * minutes + 1.5 * hours))
        return LONG if random.random() < longs else SHORT


def _position(contract: Contract) -> tuple[float, float, float, str, str]:
    """The usual and the largest worth of a position, the step of sizes, and both formats."""
    return (
        75.0 * contract.open_interest_usd**0.25,
        0.002 * contract.open_interest_usd,
        10.0**-contract.size_decimals,
        f"%.{contract.size_decimals}f",
        f"%.{contract.price_decimals}f",
    )


def _poisson(fraction: float, mean: float) -> int:
    """The quantile of a Poisson distribution; for small means only."""
    count, chance = 0, math.exp(-mean)
    while fraction >= chance and count < _LARGEST_CLUSTER:
        fraction -= chance
        count += 1
        chance *= mean / count
    return count

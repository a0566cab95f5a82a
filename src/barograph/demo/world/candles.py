"""Candles of the last traded price.

https://bybit-exchange.github.io/docs/v5/market/kline
"""

import math
from datetime import UTC, datetime
from typing import Final, NamedTuple

from barograph.demo.world.coin_market import CoinMarket
from barograph.demo.world.contracts import Contract
from barograph.demo.world.world import World
from barograph.kit.timestamps import DAY, HOUR, MINUTE

_MONTH: Final = "M"
_MONDAY: Final = 4 * DAY
"""The first Monday of Unix time."""

INTERVALS: Final = {
    **{name: int(name) * MINUTE for name in ("1", "3", "5", "15", "30", "60", "120", "240")},
    "360": 6 * HOUR,
    "720": 12 * HOUR,
    "D": DAY,
    "W": 7 * DAY,
    _MONTH: 31 * DAY,
}
"""The length of each interval; of a month, the longest."""

_SHORTEST_SAMPLE: Final = 15_000
_LONGEST_SAMPLE: Final = 225_000


class Candle(NamedTuple):
    """One candle."""

    start: int
    open: float
    high: float
    low: float
    close: float
    volume: float
    turnover: float


def floor(interval: str, time: int) -> int:
    """The start of the candle that a time falls in."""
    if interval == _MONTH:
        first = datetime.fromtimestamp(time / 1000, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        return int(first.timestamp()) * 1000
    offset = _MONDAY if interval == "W" else 0
    return time - (time - offset) % INTERVALS[interval]


def following(interval: str, start: int) -> int:
    """The start of the next candle."""
    if interval == _MONTH:
        return floor(_MONTH, start + INTERVALS[_MONTH])
    return start + INTERVALS[interval]


def candles(
    world: World, contract: Contract, interval: str, starts: list[int], now: int
) -> list[Candle]:
    """The candles that start at these times; the current one ends now."""
    return [
        _candle(world, contract, start, min(now, following(interval, start))) for start in starts
    ]


def _candle(world: World, contract: Contract, start: int, end: int) -> Candle:
    market = world.market(contract)
    first, last = market.log_price(start), market.log_price(end)
    high, low = _extremes(market, start, end)
    scale = world.carry(contract, end)
    turnover = world.turnover(contract, start, end)
    prices = [
        math.exp(value) * scale for value in (first, max(high, first, last), min(low, first, last))
    ]
    close = math.exp(last) * scale
    return Candle(start, prices[0], prices[1], prices[2], close, turnover / close, turnover)


def _extremes(market: CoinMarket, start: int, end: int) -> tuple[float, float]:
    """Highest and lowest log-price: known for whole hours, sampled for parts of hours."""
    whole = -(-start // HOUR) * HOUR, end // HOUR * HOUR
    if whole[0] > whole[1]:
        samples = _samples(market, start, end)
        return max(samples), min(samples)
    edges = _samples(market, start, whole[0]) + _samples(market, whole[1], end)
    first, last = market.locate(whole[0])[0], market.locate(whole[1])[0]
    return (
        max([*edges, *market.high[first:last]]),
        min([*edges, *market.low[first:last]]),
    )


def _samples(market: CoinMarket, start: int, end: int) -> list[float]:
    step = max(_SHORTEST_SAMPLE, min(_LONGEST_SAMPLE, (end - start) // 4))
    return [market.log_price(time) for time in (*range(start, end, step), end)]

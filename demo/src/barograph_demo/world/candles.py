"""Hourly candles of the last traded price.

https://bybit-exchange.github.io/docs/v5/market/kline
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from barograph.kit.timestamps import HOUR
from barograph_demo.world.coin_market import CoinMarket
from barograph_demo.world.contracts import Contract
from barograph_demo.world.world import World

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


def candles(world: World, contract: Contract, starts: Iterable[int], now: int) -> list[Candle]:
    """The candles of the hours that start at these times; the current one ends now."""
    return [_candle(world, contract, start, min(now, start + HOUR)) for start in starts]


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
    """Highest and lowest log-price: known for a whole hour, sampled for a part."""
    if end - start == HOUR:
        hour = market.locate(start)[0]
        return market.high[hour], market.low[hour]
    step = max(_SHORTEST_SAMPLE, min(_LONGEST_SAMPLE, (end - start) // 4))
    samples = [market.log_price(time) for time in (*range(start, end, step), end)]
    return max(samples), min(samples)

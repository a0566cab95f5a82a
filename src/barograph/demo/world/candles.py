"""Candles of the last traded price.

https://bybit-exchange.github.io/docs/v5/market/kline
"""

import math
from datetime import UTC, datetime
from typing import Final, NamedTuple

from barograph.demo.world.contracts import Contract
from barograph.demo.world.paths import HOUR, Path
from barograph.demo.world.world import World

_MINUTE: Final = 60_000
_DAY: Final = 24 * HOUR
_MONTH: Final = "M"
_MONDAY: Final = 4 * _DAY
"""The first Monday of Unix time."""

INTERVALS: Final = {
    **{name: int(name) * _MINUTE for name in ("1", "3", "5", "15", "30", "60", "120", "240")},
    "360": 6 * HOUR,
    "720": 12 * HOUR,
    "D": _DAY,
    "W": 7 * _DAY,
    _MONTH: 31 * _DAY,
}
"""What may be asked for, and how long it is at most."""

_SHORTEST_SAMPLE: Final = 15_000
_LONGEST_SAMPLE: Final = 225_000


class Candle(NamedTuple):
    """The trade of one interval."""

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
    """The candles that begin at these times; the running one ends now."""
    return [
        _candle(world, contract, start, min(now, following(interval, start))) for start in starts
    ]


def _candle(world: World, contract: Contract, start: int, end: int) -> Candle:
    path = world.path(contract)
    first, last = path.log_price(start), path.log_price(end)
    high, low = _extremes(path, start, end)
    scale = world.carry(contract, end)
    turnover = world.turnover(contract, start, end)
    prices = [
        math.exp(value) * scale for value in (first, max(high, first, last), min(low, first, last))
    ]
    close = math.exp(last) * scale
    return Candle(start, prices[0], prices[1], prices[2], close, turnover / close, turnover)


def _extremes(path: Path, start: int, end: int) -> tuple[float, float]:
    """Highest and lowest log-price: whole hours know theirs, parts of hours are sampled."""
    whole = -(-start // HOUR) * HOUR, end // HOUR * HOUR
    if whole[0] > whole[1]:
        samples = _samples(path, start, end)
        return max(samples), min(samples)
    edges = _samples(path, start, whole[0]) + _samples(path, whole[1], end)
    first, last = path.place(whole[0])[0], path.place(whole[1])[0]
    return (
        max([*edges, *path.high[first:last]]),
        min([*edges, *path.low[first:last]]),
    )


def _samples(path: Path, start: int, end: int) -> list[float]:
    step = max(_SHORTEST_SAMPLE, min(_LONGEST_SAMPLE, (end - start) // 4))
    return [path.log_price(time) for time in (*range(start, end, step), end)]

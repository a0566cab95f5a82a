"""The simulated market beside published figures for real ones: a check of the demo's realism.

Nothing here is a target. A figure for a real market depends on the years and the venue.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import correlation, fmean, median, pstdev, quantiles
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR
from barograph_demo.world.contracts import live_symbols
from barograph_demo.world.liquidations import LONG
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import INTEREST_8H, World
from benchmarks import bench

TITLE = (
    "The simulated market, in brackets the range of its seeds; published figures of real markets"
)
EPOCH = 1_789_999_200_000
PERCENT = 100.0
YEARLY = 3 * 365
TEN_YEARS = 11
"""The 10-year yield's place in a curve."""

LARGE_FALL = -0.03
NONE = "no published figure found"

_CANDLES = "2018, 2019, 2021: hourly BTC/USDT of Binance by CryptoDataDownload, computed here"
_BITMEX = "BitMEX Research, The Anchor and the Ceiling, Q3 2025"
_COINGLASS = "CoinGlass, annual report 2025, all venues"
PUBLISHED = {
    "daily volatility, %": "4.0 % (2015 to 2019; Sebastião and Godinho, Financial Innovation 2021)",
    "excess kurtosis of hourly returns": f"11 to 26 ({_CANDLES})",
    "excess kurtosis of daily returns": "4.8 (2015 to 2019; Sebastião and Godinho 2021)",
    "autocorrelation of absolute returns, 1 h": f"0.20 to 0.31 ({_CANDLES})",
    "  24 h": "0.13 to 0.23 (the same prices)",
    "autocorrelation of squared returns, 1 h": "0.10 to 0.23 (the same prices)",
    "  24 h, squared": "0.06 to 0.12 (the same prices)",
    "autocorrelation of returns, 1 h": "-0.06 to 0.00 (the same prices)",
    "settled funding at exactly 0.01 % per 8 h, %": f"78 % ({_BITMEX})",
    "settled funding below zero, %": f"at most 8 % ({_BITMEX}, BTC and ETH, three venues)",
    "settled funding, mean per year, %": "about 11 % (E. Falkenstein, Falkenblog, May 2024)",
    "settled funding, correlation with last day's return": "positive (Schmeling, Schrimpf and "
    f"Todorov, Crypto carry, BIS 2023: trend-chasing); {NONE}",
    "settled funding, changes of sign per month": NONE,
    "liquidations, median day, % of open interest": NONE,
    "liquidations, largest day / mean day": f"about 42 in a year ({_COINGLASS}: $19B, $0.4B to "
    "$0.5B)",
    "liquidations, 99th percentile / median day": NONE,
    "liquidations, % longs when BTC fell 3 % or more": f"85 to 90 % on 2025-10-10 ({_COINGLASS})",
    "liquidations, % longs when BTC rose 3 % or more": NONE,
    "liquidations, days without any": NONE,
    "listings per month": "Bybit over 150 tokens in 2024 up to autumn, spot or perpetual "
    "(Animoca Digital Research 2024)",
    "10-year yield, volatility per day, bp": "6 bp (H. Bassman on the MOVE index, October 2024)",
}


class _Samples(NamedTuple):
    """The values of each figure, one per seed."""

    figures: dict[str, list[float]]

    def add(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


def measure(plan: bench.Plan, _folder: Path) -> bench.Section:
    """Simulate some worlds and compare."""
    samples = _Samples({})
    days = plan.size(365, 40)
    for seed in range(1, plan.size(5, 1) + 1):
        world = World(seed, EPOCH)
        prices = _hourly_prices(world, days)
        _add_returns(samples, prices)
        _add_funding(samples, world, prices, days)
        _add_liquidations(samples, world, prices, days)
        _add_yields(samples, world)
    listed = [live_symbols(EPOCH + day * DAY) for day in range(days + 1)]
    new = sum(len(after - before) for before, after in pairwise(listed))
    samples.add("listings per month", new / days * 30)
    return bench.Section(TITLE, [_figure(name, samples.figures[name]) for name in PUBLISHED])


def _figure(name: str, values: Sequence[float]) -> bench.Figure:
    spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return bench.Figure(name, f"{median(values):.2f}{spread}", PUBLISHED[name])


def _hourly_prices(world: World, days: int) -> list[float]:
    """Log-prices of bitcoin."""
    bitcoin = next(each for each in world.perpetuals if each.symbol == "BTCUSDT")
    return [math.log(world.price(bitcoin, EPOCH + hour * HOUR)) for hour in range(days * 24 + 1)]


def _add_returns(samples: _Samples, prices: Sequence[float]) -> None:
    hourly, daily = _changes(prices), _changes(prices[::24])
    absolute, squared = [abs(move) for move in hourly], [move * move for move in hourly]
    samples.add("daily volatility, %", PERCENT * pstdev(daily))
    samples.add("excess kurtosis of hourly returns", _excess_kurtosis(hourly))
    samples.add("excess kurtosis of daily returns", _excess_kurtosis(daily))
    samples.add("autocorrelation of absolute returns, 1 h", _autocorrelation(absolute, 1))
    samples.add("  24 h", _autocorrelation(absolute, 24))
    samples.add("autocorrelation of squared returns, 1 h", _autocorrelation(squared, 1))
    samples.add("  24 h, squared", _autocorrelation(squared, 24))
    samples.add("autocorrelation of returns, 1 h", _autocorrelation(hourly, 1))


def _add_funding(samples: _Samples, world: World, prices: Sequence[float], days: int) -> None:
    bitcoin = next(each for each in world.perpetuals if each.symbol == "BTCUSDT")
    settled = world.settlements(bitcoin, EPOCH + DAY, EPOCH + days * DAY)
    rates = [settlement.rate for settlement in settled]
    hours = [(settlement.time - EPOCH) // HOUR for settlement in settled]
    day_before = [prices[hour] - prices[hour - 24] for hour in hours]
    flips = sum(before * after < 0 for before, after in pairwise(rates))
    pinned = sum(rate == INTEREST_8H for rate in rates) / len(rates)
    samples.add("settled funding at exactly 0.01 % per 8 h, %", PERCENT * pinned)
    samples.add(
        "settled funding below zero, %", PERCENT * sum(rate < 0 for rate in rates) / len(rates)
    )
    samples.add("settled funding, mean per year, %", PERCENT * YEARLY * fmean(rates))
    samples.add(
        "settled funding, correlation with last day's return", correlation(rates, day_before)
    )
    samples.add("settled funding, changes of sign per month", flips / days * 30)


def _add_liquidations(samples: _Samples, world: World, prices: Sequence[float], days: int) -> None:
    totals, long_totals = [], []
    for day in range(days):
        events = world.liquidations(EPOCH + day * DAY, EPOCH + (day + 1) * DAY)
        worth = [(float(event.size) * float(event.price), event.side) for event in events]
        totals.append(sum(usd for usd, _ in worth))
        long_totals.append(sum(usd for usd, side in worth if side == LONG))
    open_interest = sum(each.open_interest_usd for each in world.perpetuals)
    samples.add(
        "liquidations, median day, % of open interest", PERCENT * median(totals) / open_interest
    )
    samples.add("liquidations, largest day / mean day", max(totals) / fmean(totals))
    samples.add(
        "liquidations, 99th percentile / median day", quantiles(totals, n=100)[98] / median(totals)
    )
    moves = _changes(prices[::24])
    for name, sign in (("fell", 1), ("rose", -1)):
        chosen = [day for day, move in enumerate(moves) if sign * move <= LARGE_FALL]
        if chosen:
            share = sum(long_totals[day] for day in chosen) / sum(totals[day] for day in chosen)
            samples.add(f"liquidations, % longs when BTC {name} 3 % or more", PERCENT * share)
    samples.add("liquidations, days without any", sum(total == 0 for total in totals))


def _add_yields(samples: _Samples, world: World) -> None:
    curves = MacroWorld(world).curves(EPOCH + 60 * DAY)
    changes = _changes([curve.yields[TEN_YEARS] for curve in curves])
    samples.add("10-year yield, volatility per day, bp", PERCENT * pstdev(changes))


def _changes(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _autocorrelation(values: Sequence[float], lag: int) -> float:
    return correlation(values[:-lag], values[lag:])


def _excess_kurtosis(values: Sequence[float]) -> float:
    mean, deviation = fmean(values), pstdev(values)
    return fmean(((value - mean) / deviation) ** 4 for value in values) - 3.0

"""How often labels of signals change in random markets, by the rule in use and the one before it.

A market has 30 days of hours to compare with, then a day that is judged every minute.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from math import erf, exp, sqrt
from pathlib import Path
from random import Random

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.evidence import Hour, percentile_rank, realised_volatility
from barograph.signals.methods import (
    BREADTH,
    POSITIONING,
    PRESSURE,
    SPREAD,
    TREND,
    VOLATILITY,
    Bands,
)
from barograph.signals.records import Signal
from benchmarks.bench import Figure, Plan, Section

MARKETS, QUICK_MARKETS = 1_000, 3
HISTORY, JUDGED = 30 * 24, 24 * 60
STEPS = (60,) * HISTORY + (1,) * JUDGED
"""The minutes before each value of a series: first hours, then minutes."""

Series = Callable[[Random], Iterator[float]]


def measure(plan: Plan, _: Path) -> Section:
    """Judge the same values by both rules."""
    markets = plan.size(MARKETS, QUICK_MARKETS)
    figures = []
    for key, bands, margin, series in SUBJECTS:
        days = [list(series(Random(number))) for number in range(markets)]
        before = bands._replace(margin=margin, hold=0)
        figures += [_figure(f"{key}, before", before, days), _figure(f"{key}, now", bands, days)]
    return Section(f"Labels in {markets:,} random markets: per day, spells, extremes", figures)


def _figure(name: str, bands: Bands, days: list[list[float]]) -> Figure:
    changes = missed = 0
    lengths: list[int] = []
    for values in days:
        shown = list(_judged(bands, values))
        spells = [len(list(spell)) for _, spell in groupby(label for _, label in shown)]
        changes += len(spells) - 1
        lengths += spells[1:-1]  # those that began and ended on this day
        for own, spell in groupby(shown, lambda pair: pair[0]):
            is_end = own in {bands.labels[0], bands.labels[-1]}
            missed += is_end and all(label != own for _, label in spell)
    short, hour = (
        100 * sum(each < most for each in lengths) / max(len(lengths), 1) for most in (15, 60)
    )
    text = f"{changes / len(days):.1f} changes, {short:.0f} % < 15 min, {hour:.0f} % < 1 h"
    return Figure(name, f"{text}, {missed} missed", "0 missed", missed == 0)


def _judged(bands: Bands, values: list[float]) -> Iterator[tuple[str, str]]:
    """The label that each minute's value has on its own, and the one that is shown."""
    last = None
    for at, value in zip(range(0, JUDGED * MINUTE, MINUTE), values, strict=True):
        label, back_since = bands.label(value, at, last)
        last = Signal("", "", label, "", at, back_since=back_since)
        yield bands.own_label(value), label


def _ranked(series: Series) -> Series:
    """The percentile of each minute's value among the hourly ones of the 30 days before."""

    def ranks(chance: Random) -> Iterator[float]:
        hours: deque[float] = deque()
        known: list[float] = []
        for number, value in enumerate(series(chance)):
            if number >= HISTORY:
                yield percentile_rank(value, known)
            if number < HISTORY or (number - HISTORY) % 60 == 0:
                hours.append(value)
                insort(known, value)
            if len(hours) > HISTORY:
                known.remove(hours.popleft())

    return ranks


def _reverting(chance: Random, hours: float, spread: float) -> Iterator[float]:
    """A value that loses half of itself in so many hours, with this standard deviation."""
    value = chance.gauss(0, spread)
    for minutes in STEPS:
        kept = 0.5 ** (minutes / 60 / hours)
        value = kept * value + chance.gauss(0, spread * sqrt(1 - kept * kept))
        yield value


def _premium(chance: Random, spread: float) -> Iterator[float]:
    """A premium in percent that lasts for hours, averaged as exchanges average it."""
    average = 0.0
    for minutes, value in zip(STEPS, _reverting(chance, 12, spread), strict=True):
        average += (1 - 0.5 ** (minutes / 120)) * (value - average)
        yield average


def _fat_tailed(chance: Random) -> float:
    """Student's t with four degrees of freedom."""
    return chance.gauss(0, 1) / sqrt(chance.gammavariate(2, 0.5))


def _liquidations(chance: Random) -> Iterator[float]:
    """USD in 60 minutes: fat tails, cascades that fade, and volatility in clusters."""
    hour, cascade = deque([0.0] * 60, maxlen=60), 0.0
    for minutes, level in zip(STEPS, _reverting(chance, 24, 0.6), strict=True):
        for _ in range(minutes):
            starts = chance.random() < 1 / 200
            cascade = 0.9 * cascade + (5 * chance.paretovariate(1.2) if starts else 0)
            hour.append(exp(level) * (1 + cascade) * chance.random() ** -0.7)
        yield sum(hour)


def _open_interest(chance: Random) -> Iterator[float]:
    """The change in 24 hours, in percent, of a walk with fat tails and sudden losses."""
    walk = deque([0.0], maxlen=JUDGED + 1)
    levels = list(_reverting(chance, 24, 0.5))[-JUDGED:]
    for level in levels[1:] + levels:
        loss = chance.expovariate(0.5) if chance.random() < 1 / 2_000 else 0
        walk.append(walk[-1] + 0.08 * exp(level) * _fat_tailed(chance) - loss)
        if len(walk) > JUDGED:
            yield 100 * (exp((walk[-1] - walk[0]) / 100) - 1)


def _volatility(chance: Random) -> Iterator[float]:
    """By the hour, from returns with fat tails and volatility in clusters."""
    hours, known = deque([Hour(0, 100.0, None, None)], maxlen=25), 0.0
    for number, level in enumerate(_reverting(chance, 24, 0.5)):
        if number < HISTORY or (number - HISTORY) % 60 == 0:
            price = hours[-1].last_price * exp(0.005 * exp(level) * _fat_tailed(chance))
            hours.append(Hour(hours[-1].at + HOUR, price, None, None))
            known = realised_volatility(hours) or 0.0
        yield known


def _breadth(chance: Random) -> Iterator[float]:
    """Many contracts around a common premium; funding leaves 0.01 % from 0.05 % on either side."""
    for premium in list(_premium(chance, 0.05))[HISTORY:]:
        yield 50 * (erf((premium - 0.065) / 0.06) + erf((premium + 0.055) / 0.06))


def _spread(chance: Random) -> Iterator[float]:
    """What three venues settled in 8 hours, the most less the least; 0.01 % for a small premium."""
    venues = [_premium(chance, 0.03) for _ in range(3)]
    sums, passed, spread = [0.0] * 3, 0, 0.0
    for minutes, common, *premiums in zip(STEPS, _premium(chance, 0.05), *venues, strict=True):
        apart = [common + premium - 0.01 for premium in premiums]
        rates = [each - min(max(each, -0.05), 0.05) for each in apart]
        sums = [known + rate * minutes / 480 for known, rate in zip(sums, rates, strict=True)]
        passed += minutes
        if passed % 480 == 0:
            spread, sums = max(sums) - min(sums), [0.0] * 3
        yield spread


SUBJECTS: tuple[tuple[str, Bands, float, Series], ...] = (
    ("funding-breadth", BREADTH, 3, _breadth),
    ("liquidation-pressure", PRESSURE, 2, _ranked(_liquidations)),
    ("btc-long-accounts", POSITIONING, 3, _ranked(lambda chance: _reverting(chance, 12, 4))),
    ("btc-open-interest-trend", TREND, 1, _open_interest),
    ("btc-realised-volatility", VOLATILITY, 5, _ranked(_volatility)),
    ("cross-venue-funding", SPREAD, 3, _ranked(_spread)),
)
"""Each signal with its bands, the margin that it had before, and its values."""

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
from typing import NamedTuple

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.evidence import Hour, percentile_rank, realised_volatility
from barograph.signals import methods
from barograph.signals.methods import Bands
from barograph.signals.records import Signal
from benchmarks.bench import Figure, Plan, Section

MARKETS, QUICK_MARKETS = 1_000, 3
HISTORY, JUDGED = 30 * 24, 24 * 60
STEPS = (60,) * HISTORY + (1,) * JUDGED
"""The minutes before each value of a series: first hours, then minutes."""

Series = Callable[[Random], Iterator[float]]


class Spells(NamedTuple):
    """What a rule showed on one day."""

    changes: int
    minutes: list[int]
    """The length of each spell that began and ended on that day."""

    missed: int
    """How often the value alone was in an outermost band, and the label never said so meanwhile."""


def measure(plan: Plan, _: Path) -> Section:
    """Judge the same values by both rules."""
    markets = plan.size(MARKETS, QUICK_MARKETS)
    figures = [figure for subject in SUBJECTS for figure in _compare(*subject, markets)]
    return Section(f"Labels in {markets:,} random markets: per day, spells, extremes", figures)


def _compare(
    key: str, bands: Bands, margin_before: float, series: Series, markets: int
) -> Iterator[Figure]:
    days = [list(series(Random(f"{key} {number}"))) for number in range(markets)]
    for name, rule in (("before", bands._replace(margin=margin_before, hold=0)), ("now", bands)):
        spells = [_judged(rule, values) for values in days]
        lengths = [minutes for day in spells for minutes in day.minutes] or [JUDGED]
        short, hour = (100 * sum(n < most for n in lengths) / len(lengths) for most in (15, 60))
        changes, missed = (sum(each) for each in zip(*(day[::2] for day in spells), strict=True))
        text = f"{changes / markets:.1f} changes, {short:.0f} % < 15 min, {hour:.0f} % < 1 h"
        yield Figure(f"{key}, {name}", f"{text}, {missed} missed", "0 missed", missed == 0)


def _judged(bands: Bands, values: list[float]) -> Spells:
    last, shown = None, []
    for minute, value in enumerate(values):
        label, back_since = bands.label(value, minute * MINUTE, last)
        last = Signal("", "", label, "", minute * MINUTE, back_since=back_since)
        shown.append((bands.own_label(value), label))
    lengths = [len(list(spell)) for _, spell in groupby(label for _, label in shown)]
    ends = (bands.labels[0], bands.labels[-1])
    extremes = (spell for own, spell in groupby(shown, lambda pair: pair[0]) if own in ends)
    missed = sum(all(own != label for own, label in spell) for spell in extremes)
    return Spells(len(lengths) - 1, lengths[1:-1], missed)


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
            cascade = 0.9 * cascade
            if chance.random() < 1 / 200:
                cascade += 5 * chance.paretovariate(1.2)
            hour.append(exp(level) * (1 + cascade) * chance.random() ** -0.7)
        yield sum(hour)


def _long_accounts(chance: Random) -> Iterator[float]:
    """In percent; the exchange publishes it once per five minutes."""
    known = 0.0
    for number, value in enumerate(_reverting(chance, 12, 4)):
        known = round(60 + value, 2) if number < HISTORY or number % 5 == 0 else known
        yield known


def _open_interest(chance: Random) -> Iterator[float]:
    """The change in 24 hours, in percent, of a walk with fat tails and sudden losses."""
    walk, value = deque([0.0], maxlen=JUDGED + 1), 0.0
    levels = list(_reverting(chance, 24, 0.5))[-JUDGED:]
    for number, level in enumerate(levels + levels):
        value += 0.08 * exp(level) * _fat_tailed(chance)
        value -= chance.expovariate(0.5) if chance.random() < 1 / 2_000 else 0
        walk.append(value)
        if number >= JUDGED:
            yield 100 * (exp((value - walk[0]) / 100) - 1)


def _volatility(chance: Random) -> Iterator[float]:
    """By the hour, from returns with fat tails and volatility in clusters."""
    hours: deque[Hour] = deque(maxlen=25)
    price, known = 100.0, 0.0
    for number, level in enumerate(_reverting(chance, 24, 0.5)):
        if number < HISTORY or (number - HISTORY) % 60 == 0:
            price *= exp(0.005 * exp(level) * _fat_tailed(chance))
            hours.append(Hour(hours[-1].at + HOUR if hours else 0, price, None, None))
            known = realised_volatility(hours) or known
        yield known


def _breadth(chance: Random) -> Iterator[float]:
    """Many contracts around a common premium; funding leaves 0.01 % from 0.05 % on either side."""
    for premium in list(_premium(chance, 0.05))[HISTORY:]:
        high, low = (premium - 0.065) / 0.04, (-0.055 - premium) / 0.04
        yield 50 * (erf(high / sqrt(2)) - erf(low / sqrt(2)))


def _spread(chance: Random) -> Iterator[float]:
    """The highest rate of three venues less the lowest; each is 0.01 % for a small premium."""
    venues = [_premium(chance, 0.03) for _ in range(3)]
    for common, *premiums in zip(_premium(chance, 0.05), *venues, strict=True):
        apart = [common + premium - 0.01 for premium in premiums]
        rates = [each - min(max(each, -0.05), 0.05) for each in apart]
        yield max(rates) - min(rates)


SUBJECTS: tuple[tuple[str, Bands, float, Series], ...] = (
    ("funding-breadth", methods.BREADTH, 3, _breadth),
    ("liquidation-pressure", methods.PRESSURE, 2, _ranked(_liquidations)),
    ("btc-long-accounts", methods.POSITIONING, 3, _ranked(_long_accounts)),
    ("btc-open-interest-trend", methods.TREND, 1, _open_interest),
    ("btc-realised-volatility", methods.VOLATILITY, 5, _ranked(_volatility)),
    ("cross-venue-funding", methods.SPREAD, 3, _ranked(_spread)),
)
"""Each signal with its bands, the margin that it had before, and its values."""

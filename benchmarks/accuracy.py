"""What the figures of `/accuracy` find in random markets, without and with an effect."""

import time
from collections.abc import Callable, Sequence
from math import exp, sqrt
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from barograph.accuracy.cases import by_label, is_tested
from barograph.accuracy.definition import BTC_RETURN, HORIZONS
from barograph.accuracy.records import Measured
from barograph.kit.timestamps import HOUR
from barograph.markets.outcomes import SeriesPoint
from benchmarks.bench import Figure, Plan, Section, limited

DAYS = (120, 365, 1_095)
LEG = 8
"""Hours between two stances."""

WARM_UP = 8 * 24
FOUND = {"higher", "lower"}


class Market(NamedTuple):
    """Hourly logarithms of the price, and the variance of each hour."""

    logs: list[float]
    variances: list[float]


def market(random: Random, hours: int) -> Market:
    """Fat tails (Student's t, 4 degrees of freedom) and clustered volatility."""
    log, variance = 0.0, 1.0
    found = Market([], [])
    for _ in range(hours):
        found.logs.append(log)
        found.variances.append(variance)
        move = sqrt(variance) * random.gauss(0, 1) / sqrt(random.gammavariate(2, 1))
        variance = min(50.0, 0.02 + 0.06 * move * move + 0.92 * variance)
        log += 0.005 * move
    return found


def at_random(random: Random, _: Market, __: int) -> str:
    """A label that knows nothing."""
    return random.choice(("constructive", "neutral", "cautious"))


def against_the_trend(_: Random, known: Market, hour: int) -> str:
    """A label that expects the last day's move to turn."""
    return "constructive" if known.logs[hour] < known.logs[hour - 24] else "cautious"


def by_volatility(_: Random, known: Market, hour: int) -> str:
    """A label that is cautious when prices move a lot."""
    usual = sum(known.variances[hour - 24 : hour]) / 24
    return "cautious" if usual > 1.2 else "constructive" if usual < 0.7 else "neutral"


RULES = (at_random, against_the_trend, by_volatility)
Cases = list[tuple[int, str]]


def stances(random: Random, rule: Callable[..., str], known: Market) -> Cases:
    """A stance every eight hours, which reconsiders its label now and then."""
    cases: Cases = []
    label = "neutral"
    for hour in range(WARM_UP, len(known.logs) - 7 * 24, LEG):
        label = rule(random, known, hour) if random.random() < 0.2 else label
        cases.append((hour * HOUR, label))
    return cases


def rows(known: Market, cases: Cases, edge: float = 0.0) -> list[Measured]:
    """The tested rows; with `edge`, every hour of a constructive stance returns more."""
    labels = {at // HOUR: label for at, label in cases}
    added, points = 0.0, []
    for hour, log in enumerate(known.logs):
        points.append(SeriesPoint(hour * HOUR, exp(log + added)))
        added += edge * (labels.get(hour - hour % LEG) == "constructive")
    end = (len(points) + 4) * HOUR
    found = (row for name in HORIZONS for row in by_label(cases, BTC_RETURN, name, points, end))
    return [row for row in found if is_tested(row)]


def measure(plan: Plan, _: Path) -> Section:
    """For each length of a record: false findings, what could have been seen, what was seen."""
    figures: list[Figure] = []
    for days in DAYS[: plan.size(3, 1)]:
        figures += _figures(days, plan.size(200, 3))
    return Section(
        "Accuracy: findings in random markets, three kinds with a stance every 8 h", figures
    )


def _figures(days: int, worlds: int) -> list[Figure]:
    pages = false = 0
    seen: dict[str, list[float]] = {name: [] for name in HORIZONS}
    hits: dict[str, list[bool]] = {name: [] for name in HORIZONS}
    began = time.process_time()
    for seed in range(worlds):
        random = Random(seed)
        known = market(random, 24 * days + WARM_UP + 7 * 24)
        page = [rows(known, stances(random, rule, known)) for rule in RULES]
        pages += 1
        false += any(row.finding in FOUND for kind in page for row in kind)
    spent = (time.process_time() - began) / worlds
    for seed in range(worlds, worlds + worlds // 2 + 1):
        _plant(Random(seed), days, seen, hits)
    name = f"{days} days"
    return [
        limited(f"{name}: pages with a false finding", 100 * false / pages, "%", 5),
        *(_power(f"{name}, {horizon}", seen[horizon], hits[horizon]) for horizon in HORIZONS),
        Figure(f"{name}: CPU time of a page and its market", f"{spent:.1f} s"),
    ]


def _plant(
    random: Random, days: int, seen: dict[str, list[float]], hits: dict[str, list[bool]]
) -> None:
    """Plant an effect as large as the one that the page says would have shown; was it found?"""
    known = market(random, 24 * days + WARM_UP + 7 * 24)
    cases, unit = stances(random, at_random, known), 1e-5
    pairs = zip(
        _constructive(rows(known, cases)), _constructive(rows(known, cases, unit)), strict=True
    )
    for plain, moved in pairs:
        if plain.comparison is None or moved.comparison is None or not plain.comparison.detectable:
            continue
        gain = (moved.comparison.difference - plain.comparison.difference) / unit
        planted = rows(known, cases, plain.comparison.detectable / gain)
        again = next(row for row in _constructive(planted) if row.horizon == plain.horizon)
        seen[plain.horizon].append(plain.comparison.detectable)
        hits[plain.horizon].append(again.finding == "higher")


def _constructive(found: Sequence[Measured]) -> list[Measured]:
    return [row for row in found if row.label == "constructive"]


def _power(name: str, seen: Sequence[float], hits: Sequence[bool]) -> Figure:
    if not seen:
        return Figure(f"{name}: an effect as large as printed", "too few episodes")
    share = 100 * sum(hits) / len(hits)
    text = f"found in {share:.0f} % of {len(hits)} (median {median(seen):.2f} %)"
    return Figure(f"{name}: an effect as large as printed", text, "about 80 %")

"""By how much two means differ, and which difference could have been seen (pure).

A permutation by episodes: if a label says nothing, an episode is as likely to lie below the
baseline by some amount as above it, so we change the signs of whole episodes at random.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import shake_256
from math import fsum, sqrt

from barograph.accuracy.definition import (
    DRAWS,
    EPISODE,
    EXTREME,
    NAME,
    PLACES,
    ROOM,
    SHORTEST,
    USUAL,
)
from barograph.accuracy.records import Comparison

Valued = tuple[int, float]
"""The episode of a case, and its value."""


def episodes(cases: Sequence[tuple[int, str]], horizon: int) -> list[int]:
    """The number of each case's episode, from the times of issue and the labels, in order.

    An episode ends where the label changes, but not too early: cases whose measured periods
    overlap belong together, and so do those of a label that lasts.
    """
    shortest = max(EPISODE * horizon, SHORTEST)
    numbers: list[int] = []
    began, before, number = 0, "", -1
    for at, label in cases:
        if number < 0 or (label != before and at >= began + shortest):
            began, number = at, number + 1
        before = label
        numbers.append(number)
    return numbers


def compare(ours: Sequence[Valued], others: Sequence[Valued]) -> Comparison:
    """Compare the mean of a label's cases with that of the others."""
    total = len(ours) + len(others)
    mean = fsum(value for _, value in (*ours, *others)) / total
    # What each episode adds to the difference, and how much of a real one it would have.
    scores, weights = defaultdict[int, float](float), defaultdict[int, float](float)
    for sign, cases in ((1, ours), (-1, others)):
        for episode, value in cases:
            scores[episode] += sign * (value - mean) / len(cases)
            weights[episode] += (total - len(cases)) / total / len(cases)
    difference = fsum(scores.values())
    sums = signed_sums([scores[episode] for episode in sorted(scores)])
    # Wider, because both means are estimated from the same episodes.
    limit = sums[EXTREME - 1] * sqrt(len(scores) / max(1, len(scores) - 2))
    scale = _root(scores.values())
    noise = _root(score - difference * weights[each] for each, score in scores.items())
    # Equal prices have no noise, and any difference would show.
    seen = scale and _detectable(
        limit / scale, sums[USUAL - 1] / scale, noise, _root(weights.values()) ** 2
    )
    interval = round(difference - limit, PLACES), round(difference + limit, PLACES)
    return Comparison(round(difference, PLACES), interval, seen and round(seen, PLACES))


def _root(values: Iterable[float]) -> float:
    return sqrt(fsum(value * value for value in values))


def _detectable(limit: float, usual: float, noise: float, share: float) -> float | None:
    """The d that solves d = usual * noise + limit * sqrt(noise² + share * d²), if one does.

    A real difference widens its own limit, because every episode then has a share of it.
    """
    room = 1 - limit**2 * share
    if room < ROOM:
        return None
    return noise * (usual + limit * sqrt(usual**2 * share + room)) / room


def signed_sums(scores: Sequence[float]) -> list[float]:
    """The absolute sums of the scores with random signs, the largest first."""
    # One table for each eight episodes holds the sums for all 256 choices of their signs.
    tables = [_table(scores[at : at + 8]) for at in range(0, len(scores), 8)]
    width = len(tables)
    signs = shake_256(NAME.encode()).digest(DRAWS * width)
    sums = (
        abs(sum(map(list.__getitem__, tables, signs[at : at + width])))
        for at in range(0, DRAWS * width, width)
    )
    return sorted(sums, reverse=True)


def _table(scores: Iterable[float]) -> list[float]:
    sums = [0.0]
    for score in scores:
        sums = [each - score for each in sums] + [each + score for each in sums]
    return sums * (256 // len(sums))

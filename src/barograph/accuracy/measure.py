"""What followed an instant, and distributions of it (pure).

A measure is given an instant and a series, and never a stance, so no label can reach an outcome.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import fsum

from barograph.accuracy.definition import (
    BTC_RETURN,
    CLOSE,
    FUNDING,
    HORIZONS,
    MAX_GAP,
    MISSES_PER,
    QUANTILES,
    TESTS,
)
from barograph.accuracy.records import Distribution
from barograph.kit.timestamps import DAY
from barograph.markets.outcomes import (
    FEWEST,
    SETTLED,
    Measure,
    Outcome,
    Points,
    Return,
    SeriesPoint,
)

PLACES = 6
"""Decimals of published figures."""


class _Mean(Measure):
    def after(self, at: int) -> Outcome | None:
        end = at + self.horizon
        within = slice(bisect_right(self.times, at), bisect_right(self.times, end))
        values = [each.value for each in self.points[within]]
        if not values or end + SETTLED > self.as_of:
            return None
        return Outcome(at, end, fsum(values) / len(values))


class _DailyChange(Measure):
    def after(self, at: int) -> Outcome | None:
        start = self._start(at)
        return None if start is None else _change(start, self._end(start))

    def before(self, at: int) -> Outcome | None:
        start = self._start(at)
        return None if start is None else _change(self.last(start.at - self.horizon), start)

    def last(self, at: int) -> SeriesPoint | None:
        """The last point up to an instant, unless there is too large a gap before it."""
        index = bisect_right(self.times, at)
        found = self.points[index - 1 : index] if index else ()
        return found[0] if found and found[0].at >= at - MAX_GAP else None

    def _start(self, at: int) -> SeriesPoint | None:
        """The last close before an instant."""
        return self.last((at - CLOSE) // DAY * DAY)

    def _end(self, start: SeriesPoint) -> SeriesPoint | None:
        return self.first(start.at + self.horizon, MAX_GAP)


def _change(start: SeriesPoint | None, end: SeriesPoint | None) -> Outcome | None:
    if start is None or end is None:
        return None
    return Outcome(start.at, end.at, end.value - start.value)


_MEASURES: dict[str, type[Measure]] = {BTC_RETURN: Return, FUNDING: _Mean}


def measure_of(metric: str, horizon: str, points: Points, as_of: int) -> Measure:
    """The measure of a metric over a horizon."""
    return _MEASURES.get(metric, _DailyChange)(points, HORIZONS[horizon], as_of)


def distribution(values: Iterable[float]) -> Distribution:
    """The distribution of values; under `FEWEST` only their count."""
    ordered = sorted(values)
    if len(ordered) < FEWEST:
        return Distribution(len(ordered))
    p10, p25, p50, p75, p90 = (_quantile(ordered, each) for each in QUANTILES)
    k = interval_rank(len(ordered))
    interval = (round(ordered[k - 1], PLACES), round(ordered[-k], PLACES))
    return Distribution(len(ordered), (p10, p25, p50, p75, p90), interval)


def _quantile(ordered: Sequence[float], percent: int) -> float:
    below, rest = divmod((len(ordered) - 1) * percent, 100)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return round(low + (high - low) * rest / 100, PLACES)


def interval_rank(count: int) -> int:
    """The rank from either end of the order statistics that bound the median, from 1."""
    k, heads, fewer, limit = 0, 1, 0, 2**count // (2 * TESTS * MISSES_PER)
    while fewer + heads <= limit:  # of all sequences of coins, those with k heads, and with fewer
        fewer += heads
        heads = heads * (count - k) // (k + 1)
        k += 1
    return k

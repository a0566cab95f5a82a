"""What followed the stances of one kind, as distributions beside two baselines (pure).

A measure is given an instant and a series, and never a stance, so no label can reach an outcome.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import fsum

from msgspec import Struct

from barograph.accuracy.definition import (
    ABSTAINED,
    BTC_RETURN,
    CLAIMS,
    CLOSE,
    FUNDING,
    HORIZONS,
    LATE,
    MAX_GAP,
    METRICS,
    MISSES_PER,
    QUANTILES,
    TESTS,
    metrics_of,
)
from barograph.accuracy.records import Distribution, Finding, KindAccuracy, Measured
from barograph.history.records import LABELS, Version
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.outcomes import (
    FEWEST,
    SETTLED,
    Measure,
    Outcome,
    Points,
    Return,
    SeriesPoint,
    independent,
)
from barograph.stances import funding
from barograph.stances.rules import BY

PLACES = 6
"""Decimals of published figures."""


class _Mean(Measure):
    def after(self, at: int) -> Outcome | None:
        end = at + self.horizon
        within = slice(bisect_right(self.times, at), bisect_right(self.times, end))
        values = [point.value for point in self.points[within]]
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
    p10, p25, p50, p75, p90 = (_quantile(ordered, quantile) for quantile in QUANTILES)
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


CAUTION = (
    "This is not evidence of live-capital results, and past results say nothing about the future."
)


class Case(Struct, frozen=True):
    """A measured version, and what happened to it."""

    version: Version
    until: int
    """When the next version was issued, or the time of the calculation."""

    is_withdrawn: bool

    @property
    def label(self) -> str:
        """The decision."""
        return self.version.leg.decision.label

    @property
    def is_late(self) -> bool:
        """Whether it was issued long after its evidence was complete."""
        leg = self.version.leg
        is_funding = self.version.kind == funding.KIND
        complete = leg.period["start"] if is_funding else leg.evidence.observed_at
        known_at = round(datetime.fromisoformat(complete).timestamp() * SECOND)
        return self.version.revision == 1 and self.version.issued_at > known_at + LATE


def kind_accuracy(
    kind: str, cases: Sequence[Case], series: Mapping[str, Points], as_of: int, private: int = 0
) -> KindAccuracy:
    """Measure what followed the cases, in the order of their recording; `private` is passed on."""
    measured = tuple(
        each
        for metric, horizon in metrics_of(kind)
        for each in _by_label(cases, metric, horizon, series.get(metric, ()), as_of)
    )
    return KindAccuracy(
        kind=kind,
        versions=len(cases),
        first=cases[0].version.sequence if cases else 0,
        last=cases[-1].version.sequence if cases else 0,
        abstained=sum(case.label == ABSTAINED for case in cases),
        expired=sum(case.version.expires_at <= case.until for case in cases),
        revised=sum(case.version.leg.decision.by != BY for case in cases),
        withdrawn=sum(case.is_withdrawn for case in cases),
        late=sum(case.is_late for case in cases),
        headline=headline(measured, len(cases)),
        measured=measured,
        private=private,
    )


def _by_label(
    cases: Sequence[Case], metric: str, horizon: str, points: Points, as_of: int
) -> Iterator[Measured]:
    measure = measure_of(metric, horizon, points, as_of)
    starts = [case.version.issued_at for case in cases]
    regular = range(starts[0], starts[-1] + 1, measure.horizon) if starts else ()
    unconditional = _distribution(independent((at, measure.after(at)) for at in regular))
    for label in LABELS:
        issued = [case.version.issued_at for case in cases if case.label == label]
        outcomes = [(at, measure.after(at)) for at in issued]
        taken = independent(outcomes)
        followed = _distribution(taken)
        persistence = _distribution(independent((at, measure.before(at)) for at, _ in taken))
        parts = [followed, unconditional, persistence]
        finding = _finding(metric, label, *parts)
        if finding == "too-few":
            parts = [Distribution(part.count) for part in parts]
        yield Measured(
            label=label,
            horizon=horizon,
            metric=metric,
            unit=METRICS[metric].unit,
            cases=len(issued),
            without_outcome=sum(outcome is None for _, outcome in outcomes),
            followed=parts[0],
            unconditional=parts[1],
            persistence=parts[2],
            finding=finding,
        )


def _distribution(outcomes: Iterable[tuple[int, Outcome]]) -> Distribution:
    return distribution(outcome.value for _, outcome in outcomes)


def _finding(metric: str, label: str, followed: Distribution, *baselines: Distribution) -> Finding:
    intervals = [baseline.interval for baseline in baselines if baseline.interval is not None]
    if followed.interval is None or len(intervals) < len(baselines):
        return "too-few"
    claim = CLAIMS.get(label) if metric == BTC_RETURN else None
    low, high = followed.interval
    if claim == "higher" and low > max(top for _, top in intervals):
        return "higher"
    if claim == "lower" and high < min(bottom for bottom, _ in intervals):
        return "lower"
    return "none"


def headline(measured: Iterable[Measured], versions: int) -> str:
    """What the figures of a kind show, in one or two sentences."""
    tests = [row for row in measured if is_tested(row)]
    enough = [test for test in tests if test.finding != "too-few"]
    differing = [each for each in enough if each.finding != "none"]
    if not versions:
        return "Nothing is measured yet: no version since the definition has become public."
    if not enough:
        most = max(test.fewest for test in tests)
        return (
            f"Too few cases to say anything: “constructive” and “cautious” have at most {most} of "
            f"the {FEWEST} needed."
        )
    if not differing:
        return (
            f"No skill shown in the {len(enough)} of {len(tests)} comparisons that have enough "
            "cases: after a label, bitcoin moved in its direction no more than it did anyway."
        )
    others = len(enough) - len(differing)
    shown = " ".join(_shown(each) for each in differing)
    rest = f" {others} other comparison{'s' * (others != 1)} showed no skill." if others else ""
    return f"{shown}{rest} {CAUTION}"


def is_tested(measured: Measured) -> bool:
    """Whether the label claims a direction of this metric; everything else is described."""
    return measured.metric == BTC_RETURN and measured.label in CLAIMS


def _shown(measured: Measured) -> str:
    assert measured.followed.quantiles is not None
    more = "more" if measured.finding == "higher" else "less"
    median = measured.followed.quantiles[2]
    return (
        f"After “{measured.label}”, BTC returned {more} over {_HOURS[measured.horizon]} than at "
        f"other times and than just before (median {median:+.2f} %, n = "
        f"{measured.followed.count})."
    )


_HOURS = {"8h": "8 h", "24h": "24 h", "7d": "7 days"}

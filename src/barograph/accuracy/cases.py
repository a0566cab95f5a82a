"""What followed the stances of one kind, as distributions beside two baselines (pure).

A measure is given an instant and a series, and never a stance, so no label can reach an outcome.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from barograph.accuracy.definition import (
    ABSTAINED,
    BTC_RETURN,
    CLAIMS,
    CLOSE,
    FEWEST_EPISODES,
    FUNDING,
    HORIZONS,
    LATE,
    MATTERS,
    MAX_GAP,
    METRICS,
    PLACES,
    QUANTILES,
    metrics_of,
)
from barograph.accuracy.episodes import compare, episodes
from barograph.accuracy.records import Comparison, Distribution, Finding, KindAccuracy, Measured
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
)
from barograph.stances import funding
from barograph.stances.rules import BY


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
    mean = round(fsum(ordered) / len(ordered), PLACES)
    return Distribution(len(ordered), (p10, p25, p50, p75, p90), mean)


def _quantile(ordered: Sequence[float], percent: int) -> float:
    below, rest = divmod((len(ordered) - 1) * percent, 100)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return round(low + (high - low) * rest / 100, PLACES)


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
    legs = [(each.version.issued_at, each.label) for each in cases if each.version.revision == 1]
    measured = tuple(
        row
        for metric, horizon in metrics_of(kind)
        for row in by_label(legs, metric, horizon, series.get(metric, ()), as_of)
    )
    return KindAccuracy(
        kind=kind,
        versions=len(cases),
        legs=len(legs),
        first=cases[0].version.sequence if cases else 0,
        last=cases[-1].version.sequence if cases else 0,
        abstained=sum(case.label == ABSTAINED for case in cases),
        expired=sum(case.version.expires_at <= case.until for case in cases),
        revised=sum(case.version.leg.decision.by != BY for case in cases),
        withdrawn=sum(case.is_withdrawn for case in cases),
        late=sum(case.is_late for case in cases),
        headline=headline(measured, len(legs)),
        measured=measured,
        private=private,
    )


def by_label(
    cases: Sequence[tuple[int, str]], metric: str, horizon: str, points: Points, as_of: int
) -> Iterator[Measured]:
    """What followed each label, from the times and labels of all cases of a kind."""
    measure = measure_of(metric, horizon, points, as_of)
    known = [
        (label, episode, after.value, measure.before(at))
        for (at, label), episode in zip(cases, episodes(cases, measure.horizon), strict=True)
        if (after := measure.after(at)) is not None
    ]
    for label in LABELS:
        count = sum(each == label for _, each in cases)
        ours = [(episode, after) for each, episode, after, _ in known if each == label]
        others = [(episode, after) for each, episode, after, _ in known if each != label]
        befores = [last.value for each, *_, last in known if each == label and last is not None]
        row = Measured(
            label=label,
            horizon=horizon,
            metric=metric,
            unit=METRICS[metric].unit,
            cases=count,
            without_outcome=count - len(ours),
            episodes=len({episode for episode, _ in ours}),
            followed=distribution(value for _, value in ours),
            others=distribution(value for _, value in others),
            persistence=distribution(befores),
            finding="not-tested",
        )
        if row.fewest < FEWEST or row.episodes < FEWEST_EPISODES:
            yield _without_figures(row)
        elif is_tested(row):
            comparison = compare(ours, others)
            finding = _finding(comparison, MATTERS[horizon])
            yield replace(row, finding=finding, comparison=comparison)
        else:
            yield row


def _without_figures(row: Measured) -> Measured:
    followed, others, persistence = (Distribution(part.count) for part in row.parts)
    return replace(
        row, followed=followed, others=others, persistence=persistence, finding="too-few"
    )


def _finding(comparison: Comparison, matters: float) -> Finding:
    low, high = comparison.interval
    if low > 0 or high < 0:
        return "higher" if low > 0 else "lower"
    return "no-difference" if -matters <= low and high <= matters else "could-not-tell"


def headline(measured: Iterable[Measured], legs: int) -> str:
    """What the figures of a kind show, each with the smallest difference that would have shown."""
    tests = [row for row in measured if is_tested(row)]
    if not legs:
        return "Nothing is measured yet: no stance since the definition has become public."
    if all(test.finding == "too-few" for test in tests):
        cases, spells = max(test.fewest for test in tests), max(test.episodes for test in tests)
        return (
            "There are too few cases. To compare “constructive” or “cautious” with the other "
            f"labels, we need {FEWEST} cases on each side and {FEWEST_EPISODES} episodes. We have "
            f"at most {cases} case{'s' * (cases != 1)} and {spells} episode{'s' * (spells != 1)}."
        )
    texts = [
        f"{words}: {'; '.join(_shown(row) for row in tests if row.finding == finding)}."
        for finding, words in FINDINGS.items()
        if any(row.finding == finding for row in tests)
    ]
    is_shown = any(row.finding in {"higher", "lower"} for row in tests)
    return " ".join([*texts, CAUTION] if is_shown else texts)


def is_tested(measured: Measured) -> bool:
    """Whether the label claims a direction of this metric; everything else is described."""
    return measured.metric == BTC_RETURN and measured.label in CLAIMS


def _shown(row: Measured) -> str:
    assert row.comparison is not None
    seen = row.comparison.detectable
    least = "could not have seen any"
    if seen is not None:
        least = f"would probably have seen {seen:.2f} % or more"
    is_opposite = row.finding in {"higher", "lower"} and row.finding != CLAIMS[row.label]
    return (
        f"{row.label} over {_HOURS[row.horizon]} (difference {row.comparison.difference:+.2f} %"
        f"{', the opposite of its claim' * is_opposite}; we {least})"
    )


FINDINGS = {
    "higher": "BTC returned more than after other labels",
    "lower": "BTC returned less than after other labels",
    "no-difference": "No difference that would matter",
    "could-not-tell": "We could not tell",
}
_HOURS = {"8h": "8 h", "24h": "24 h", "7d": "7 days"}

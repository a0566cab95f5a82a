"""One coin at all venues over time: totals that say what they contain (pure).

A venue that lists the coin but has no value is missing: the total without it is partial, and says
how large the venue last was. A change of the total compares points only over the same venues.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sys import maxsize
from typing import NamedTuple

from barograph.kit.timestamps import DAY
from barograph.markets.cross_entries import weighted_mean
from barograph.markets.cross_prices import MAX_DIFFERENCE
from barograph.markets.last_known import KEPT_FOR
from barograph.markets.samples import (
    MEASURES,
    LiquidationColumn,
    Measure,
    MeasureLabels,
    RecordedListing,
)
from barograph.venues.records import ContractName

ALL = "all"
"""The venue of a series that adds the venues up."""

SUMMED: tuple[Measure, ...] = ("open-interest", "open-interest-coins", "volume", "volume-coins")
TOTALS: Mapping[Measure, MeasureLabels] = {
    **{measure: MEASURES[measure] for measure in (*SUMMED, "funding")},
    "price": MeasureLabels("Price at the venue with the largest open interest", "USD or USDT"),
}
"""The measures that all venues have together. Funding is weighted by open interest."""


COVERED = 0.9
"""The share of a chart's points for which a venue must be known to be part of it."""


class Sample(NamedTuple):
    """What one contract had at a recorded time, in single coins."""

    name: ContractName
    at: int
    price: float
    value: float | None
    """Of the measure; a rate without a weight is None."""

    weight: float | None
    """The open interest in USD."""

    is_disputed: bool
    is_backfilled: bool

    @property
    def counts(self) -> bool:
        """Whether the value is known and not disputed."""
        return self.value is not None and not self.is_disputed

    @property
    def why_left_out(self) -> str:
        """Why it isn't in a total; a value that could count has a price far from the others'."""
        return "disputed" if self.is_disputed or self.counts else "no value"


class MissingValue(NamedTuple):
    """A venue that listed the coin and has no value that counts."""

    venue: str
    reason: str
    last: float | None = None
    """Its last value that counted, if that is at most 7 days old."""

    last_at: int | None = None


class TotalPoint(NamedTuple):
    """A measure of one coin at all venues at one time."""

    at: int
    value: float | None
    """Of the venues inside; None if there is none."""

    with_missing: float | None
    """The same with the last values of the missing venues; None if one of these is unknown, and for
    prices. A line of it has no step where a venue fails."""

    by_venue: Mapping[str, float]
    """The venues inside."""

    missing: Sequence[MissingValue] = ()
    is_backfilled: bool = False
    """Whether a value is from a venue's own history."""

    largest: str | None = None
    """The venue inside with the largest open interest, whose price is the price of the point."""


class TotalSeries(NamedTuple):
    """A measure of one coin over the venues that cover the whole time, so that none enters it."""

    asset: str
    measure: Measure
    days: int
    interval: int
    as_of: int
    points: Sequence[TotalPoint]
    venues: Sequence[str]
    left_out: Sequence[str]
    """Venues that list the coin, but are unknown for too much of the time."""


_Samples = Mapping[ContractName, Sample]


def total_points(
    measure: Measure,
    samples: Iterable[Sample],
    listings: Sequence[RecordedListing],
    grid: Iterable[int],
) -> list[TotalPoint]:
    """The totals at the instants of a grid; samples of earlier instants say what was known last."""
    by_time: dict[int, dict[ContractName, Sample]] = defaultdict(dict)
    for sample in samples:
        by_time[sample.at][sample.name] = sample
    first, *_ = instants = [*grid]
    listed = [(each.name, each.listed_at, each.delisted_at or maxsize) for each in listings]
    last: dict[ContractName, Sample] = {}
    others: set[ContractName] = set()
    points = []
    for at in [*sorted(at for at in by_time if at < first), *instants]:
        found = by_time.get(at, {})
        known = {name: each for name, each in found.items() if each.counts}
        last = {name: each for name, each in last.items() if at - each.at <= KEPT_FOR}
        if known and (deepest := _largest([*(last | known).values()])).name in known:
            # Without the deepest venue, another asset stays one.
            far = MAX_DIFFERENCE * deepest.price
            others = {n for n, each in known.items() if abs(each.price - deepest.price) > far}
        fair = {name: each for name, each in known.items() if name not in others}
        if at >= first:
            names = (name for name, since, until in listed if since <= at < until)
            lacking = {
                n: found.get(n)
                for n in names
                if n not in fair and (n not in others or _was_near(n, last, at))
            }
            points.append(_point(measure, at, fair, lacking, last))
        last |= fair
    return points


def covering(points: Sequence[TotalPoint]) -> list[str]:
    """The venues with a value or a last one at most points that have any.

    At the first and the last of these too, because a line steps where a venue enters or leaves it.
    """
    known = [
        {*point.by_venue, *(each.venue for each in point.missing if each.last is not None)}
        for point in points
        if point.by_venue
    ]
    steady = known[0] & known[-1] if known else set()
    most = COVERED * len(known)
    return sorted(venue for venue in steady if sum(venue in each for each in known) >= most)


def summed_liquidations(at: int, columns: Iterable[LiquidationColumn]) -> LiquidationColumn:
    """Columns of one time as one: what was watched, which is a lower bound."""
    known = [each for each in columns if each.long_usd is not None]
    if not known:
        return LiquidationColumn(at, None, None, 0.0, partial=True)
    return LiquidationColumn(
        at,
        round(sum(each.long_usd or 0.0 for each in known), 2),
        round(sum(each.short_usd or 0.0 for each in known), 2),
        min(each.watched_pct for each in known),
        any(each.partial for each in known),
        any(each.is_disputed for each in known),
    )


def _point(
    measure: Measure,
    at: int,
    fair: _Samples,
    lacking: Mapping[ContractName, Sample | None],
    last: _Samples,
) -> TotalPoint:
    missing, filled = [], [*fair.values()]
    for name, sample in lacking.items():
        reason = "no reading" if sample is None else sample.why_left_out
        before = last.get(name)
        if before is None:
            missing.append(MissingValue(name.venue, reason))
        else:
            missing.append(MissingValue(name.venue, reason, before.value, before.at))
            filled.append(before)
    by_venue: dict[str, list[Sample]] = defaultdict(list)
    for name in sorted(fair):
        by_venue[name.venue].append(fair[name])
    value = filled_value = _combined(measure, [*fair.values()])
    if missing or measure == "price":
        is_known = measure != "price" and all(each.last is not None for each in missing)
        filled_value = _combined(measure, filled) if is_known else None
    return TotalPoint(
        at,
        value,
        filled_value,
        {venue: _combined(measure, inside) or 0.0 for venue, inside in by_venue.items()},
        missing,
        any(each.is_backfilled for each in fair.values()),
        _largest([*fair.values()]).name.venue if fair else None,
    )


def _combined(measure: Measure, samples: Sequence[Sample]) -> float | None:
    if not samples:
        return None
    if measure in SUMMED:
        return sum([each.value or 0.0 for each in samples])
    if measure == "price":
        return _largest(samples).value
    return weighted_mean((each.weight or 0.0, each.value or 0.0) for each in samples)


def _was_near(name: ContractName, last: _Samples, at: int) -> bool:
    """Whether a contract with another price than the others was near them within a day."""
    return name in last and at - last[name].at <= DAY


def _largest(samples: Sequence[Sample]) -> Sample:
    return max(samples, key=lambda each: each.weight or 0.0)

"""One coin at all venues over time: totals that say what they contain (pure).

A venue that lists the coin but has no value is missing: the total without it is partial, and says
how large the venue last was. A change of the total compares points only over the same venues.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barograph.markets.cross_coins import MAX_DIFFERENCE
from barograph.markets.last_known import KEPT_FOR
from barograph.markets.samples import MEASURES, Measure, MeasureLabels, RecordedListing

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

    venue: str
    contract: str
    at: int
    price: float
    value: float | None
    """Of the measure; a rate without a weight is None."""

    weight: float | None
    """The open interest in USD."""

    is_disputed: bool
    """Whether the value or the weight it needs was disputed."""

    is_backfilled: bool


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
    value: float | None = None
    """Of the venues inside; None if there is none."""

    with_missing: float | None = None
    """The same with the last values of the missing venues; None if one of these is unknown, and for
    prices. A line of it has no step where a venue fails."""

    by_venue: Mapping[str, float] = {}
    """The venues inside."""

    missing: Sequence[MissingValue] = ()
    is_backfilled: bool = False
    """Whether a value is from a venue's own history."""


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
    """Venues that list the coin, but not for the whole time, or whose values we lack."""


class SameVenues(NamedTuple):
    """The totals of two points over the venues that both have."""

    venues: Sequence[str]
    before: float
    after: float


def total_points(
    measure: Measure,
    samples: Iterable[Sample],
    listings: Sequence[RecordedListing],
    grid: Iterable[int],
) -> list[TotalPoint]:
    """The totals at the instants of a grid; samples may begin earlier, in the order of time."""
    by_time: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_time[sample.at].append(sample)
    first, *_ = instants = [*grid]
    last: dict[tuple[str, str], Sample] = {}
    for at in sorted(at for at in by_time if at < first):
        last |= _fair(by_time[at])
    points = []
    for at in instants:
        found = by_time.get(at, [])
        fair = _fair(found)
        listed = [
            (each.venue, each.contract)
            for each in listings
            if each.listed_at <= at and (each.delisted_at is None or at < each.delisted_at)
        ]
        states = {(each.venue, each.contract): each for each in found}
        lacking = {key: states.get(key) for key in listed if key not in fair}
        points.append(_point(measure, at, fair, lacking, last))
        last |= fair
    return points


def covering(points: Sequence[TotalPoint]) -> list[str]:
    """The venues with a value or a last one at most points that have any."""
    known = Counter(
        venue
        for point in points
        for venue in {*point.by_venue, *(each.venue for each in point.missing if each.last)}
    )
    most = COVERED * sum(bool(point.by_venue) for point in points)
    return sorted(venue for venue, count in known.items() if count >= most)


def over_same_venues(before: TotalPoint, after: TotalPoint) -> SameVenues | None:
    """Two points of a summed measure over the venues inside of both; None if there is none."""
    venues = [venue for venue in after.by_venue if venue in before.by_venue]
    if not venues:
        return None
    sums = (sum(point.by_venue[venue] for venue in venues) for point in (before, after))
    return SameVenues(venues, *sums)


_Fair = Mapping[tuple[str, str], Sample]


def _fair(samples: Iterable[Sample]) -> _Fair:
    """The samples that count: known, not disputed, and of the same asset as the largest."""
    known = [each for each in samples if not each.is_disputed and each.value is not None]
    if not known:
        return {}
    usual = _largest(known).price
    return {
        (each.venue, each.contract): each
        for each in known
        if abs(each.price - usual) <= MAX_DIFFERENCE * usual
    }


def _point(
    measure: Measure,
    at: int,
    fair: _Fair,
    lacking: Mapping[tuple[str, str], Sample | None],
    last: _Fair,
) -> TotalPoint:
    missing, filled = [], [*fair.values()]
    for key, sample in lacking.items():
        before = last.get(key)
        if sample is not None and not sample.is_disputed and sample.value is not None:
            continue  # another asset of the same name
        if before is None or at - before.at > KEPT_FOR:
            missing.append(MissingValue(key[0], _reason(sample)))
        else:
            missing.append(MissingValue(key[0], _reason(sample), before.value, before.at))
            filled.append(before)
    by_venue: dict[str, list[Sample]] = defaultdict(list)
    for key in sorted(fair):
        by_venue[key[0]].append(fair[key])
    is_known = measure != "price" and all(each.last is not None for each in missing)
    return TotalPoint(
        at,
        _combined(measure, [*fair.values()]),
        _combined(measure, filled) if is_known else None,
        {venue: _combined(measure, inside) or 0.0 for venue, inside in by_venue.items()},
        missing,
        any(each.is_backfilled for each in fair.values()),
    )


def _combined(measure: Measure, samples: Sequence[Sample]) -> float | None:
    values = [(each.value, each.weight or 0.0) for each in samples if each.value is not None]
    if not values:
        return None
    if measure in SUMMED:
        return sum(value for value, _ in values)
    if measure == "price":
        return _largest(samples).value
    total = sum(weight for _, weight in values)
    return sum(value * weight for value, weight in values) / total if total else None


def _largest(samples: Sequence[Sample]) -> Sample:
    return max(samples, key=lambda each: each.weight or 0.0)


def _reason(sample: Sample | None) -> str:
    if sample is None:
        return "no reading"
    return "disputed" if sample.is_disputed else "no value"

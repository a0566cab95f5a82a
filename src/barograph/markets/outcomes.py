"""What a price did after an instant, by cases that don't overlap in time (pure)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barograph.kit.timestamps import HOUR

FEWEST = 30
"""We derive nothing from fewer cases."""

LATE_POINT = 2 * HOUR
"""How late a point may be and still count for an instant."""

SETTLED = 3 * HOUR
"""How long after its end an outcome counts: by then, every point that can count is recorded."""


class SeriesPoint(NamedTuple):
    """A recorded value at an instant; a daily figure is at the start of its day."""

    at: int
    value: float


Points = Sequence[SeriesPoint]
"""Oldest first, without gaps as values."""


class Outcome(NamedTuple):
    """A measured value, and the time that it covers."""

    start: int
    end: int
    value: float


class Measure:
    """One metric over one horizon, as known at `as_of`."""

    def __init__(self, points: Points, horizon: int, as_of: int) -> None:
        self.points = points
        self.horizon = horizon
        self.as_of = as_of
        self.times = [point.at for point in points]

    def after(self, at: int) -> Outcome | None:
        """What followed an instant; None if that is not over or not recorded."""
        raise NotImplementedError

    def before(self, at: int) -> Outcome | None:
        """The same over the time of equal length that ended then."""
        return self.after(at - self.horizon)

    def first(self, at: int, late: int) -> SeriesPoint | None:
        """The first point at or after an instant, at most this late."""
        index = bisect_left(self.times, at)
        points = self.points[index : index + 1]
        return points[0] if points and points[0].at <= at + late else None


class Return(Measure):
    """The change of a price in percent."""

    def after(self, at: int) -> Outcome | None:
        """From the first point at or after an instant to the first after the horizon."""
        end = at + self.horizon
        first, last = self.first(at, LATE_POINT), self.first(end, LATE_POINT)
        if first is None or last is None or end + SETTLED > self.as_of:
            return None
        return Outcome(first.at, last.at, 100 * (last.value / first.value - 1))


def independent(outcomes: Iterable[tuple[int, Outcome | None]]) -> list[tuple[int, Outcome]]:
    """In order, each outcome that starts at or after the end of the one taken before."""
    taken: list[tuple[int, Outcome]] = []
    for at, outcome in outcomes:
        if outcome is not None and (not taken or outcome.start >= taken[-1][1].end):
            taken.append((at, outcome))
    return taken

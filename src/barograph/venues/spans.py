"""Spans of time in which a stream can't have missed anything (pure, in memory)."""

from bisect import bisect_left
from collections.abc import Iterable
from math import ceil

from barograph.kit.timestamps import DAY, MINUTE

AHEAD = MINUTE
"""Watched spans may end at most this much after the current instant."""

Span = tuple[int, int]
"""The start and end of a span of time, in milliseconds."""


class WatchedSpans:
    """Spans of time in which we can't have missed anything, merged as they come."""

    def __init__(self, spans: Iterable[Span] = (), since: int | None = None) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.since = since
        for start, end in sorted(spans):
            self.add(start, end)

    def add(self, start: int, end: int) -> Span:
        """Add a span and return the merged one that now contains it."""
        self.begun_by(start)
        first = bisect_left(self._ends, start)
        last = first
        while last < len(self._starts) and self._starts[last] <= end:
            start, end = min(start, self._starts[last]), max(end, self._ends[last])
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        return start, end

    def begun_by(self, at: int) -> None:
        """Record that watching began at `at` or before."""
        self.since = at if self.since is None else min(self.since, at)

    @property
    def until(self) -> int | None:
        """The end of the newest span."""
        return self._ends[-1] if self._ends else None

    def within(self, start: int, end: int) -> list[Span]:
        """The parts of a span that were watched."""
        spans = zip(self._starts, self._ends, strict=True)
        common = [(max(start, first), min(end, last)) for first, last in spans]
        return [(first, last) for first, last in common if first < last]

    def pct_within(self, start: int, end: int) -> float:
        """Share of a span that was watched, in percent."""
        return watched_share(self.time_within(start, end), end - start)

    def time_within(self, start: int, end: int) -> int:
        """How much of a span was watched, in milliseconds."""
        return sum(last - first for first, last in self.within(start, end))

    def watched_pct(self, as_of: int) -> float:
        """Share of the 24 hours before `as_of` that was watched, in percent."""
        self._forget_after(as_of + AHEAD)
        oldest = as_of - DAY
        past = bisect_left(self._ends, oldest)
        del self._starts[:past], self._ends[:past]
        return self.pct_within(oldest, as_of)

    def covered_at(self, as_of: int, min_pct: float) -> int | None:
        """When `min_pct` of 24 hours will be covered, if nothing is missed from `as_of` on.

        From then on, coverage grows whenever time that was not watched leaves the 24 hours.
        """
        at = as_of - DAY
        spans = [*self.within(at, as_of), (as_of, as_of)]
        missing = ceil(min_pct / 100 * DAY) - sum(end - start for start, end in spans)
        if missing <= 0:
            return None
        for start, end in spans:
            if missing <= start - at:
                break
            missing -= start - at
            at = end
        return at + missing + DAY

    def _forget_after(self, latest: int) -> None:
        """Drop spans from the future, left by a clock that has been set back since."""
        while self._ends and self._ends[-1] > latest:
            start, end = self._starts.pop(), self._ends.pop()
            if start < latest:
                self.add(start, min(end, latest))


def watched_share(watched: int, span: int) -> float:
    """The watched share of a span, in percent; rounded down, so that 100 is all of it."""
    return 10_000 * watched // span / 100

"""Bands of a scale that have a name (pure)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Band(NamedTuple):
    """A named part of a scale; an end that is None has no bound."""

    label: str
    low: float | None
    high: float | None

    def clipped(self, low: float, high: float) -> tuple[float, float]:
        """The part of the band within a scale; where there is none, both ends are one."""
        lower = low if self.low is None else min(high, max(low, self.low))
        upper = high if self.high is None else min(high, max(low, self.high))
        return lower, upper


def edges_around(bands: Sequence[Band], values: Sequence[float]) -> Iterable[float]:
    """The edges of every band that one of the values may lie in: where it would be left."""
    low, high = min(values), max(values)
    for band in bands:
        is_below = band.high is not None and band.high < low
        is_above = band.low is not None and band.low > high
        if not is_below and not is_above:
            yield from (edge for edge in (band.low, band.high) if edge is not None)

"""Bands with hysteresis (pure): from a number to a label that does not flap."""

from collections.abc import Sequence
from typing import NamedTuple


class Bands(NamedTuple):
    """Labels from low to high, the edges between them, and which label is the usual one.

    An edge belongs to the label that is further out. A label is taken at its edge, and left only
    more than `margin` behind it on the way back. Both sides of the usual label are treated alike.
    """

    labels: Sequence[str]
    edges: Sequence[float]
    usual: int
    margin: float

    def label(self, value: float, previous: str | None) -> str:
        """The label of a value for someone whose last label was `previous`."""
        wanted = self._index(value, 0)
        if previous is None or previous not in self.labels:
            return self.labels[wanted]
        here = self.labels.index(previous)
        # Only on the way back to the usual label is the way longer, and only as far as that.
        held = self._index(value, self.margin)
        if self.usual < here and wanted < here:
            return self.labels[min(here, max(held, wanted))]
        if here < self.usual and here < wanted:
            return self.labels[max(here, min(held, wanted))]
        return self.labels[wanted]

    def _index(self, value: float, margin: float) -> int:
        """Which label a value has when every edge lies `margin` closer to the usual one."""
        low, high = self.edges[: self.usual], self.edges[self.usual :]
        below = sum(value <= edge + margin for edge in low)
        above = sum(value >= edge - margin for edge in high)
        return self.usual - below + above

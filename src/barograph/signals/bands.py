"""Bands with hysteresis (pure): from a number to a label that does not flap."""

from collections.abc import Sequence
from typing import NamedTuple


class Bands(NamedTuple):
    """Labels from low to high, the edges between them, and how far below an edge one must fall.

    A higher label is taken at its edge; a lower one only `margin` below the edge.
    """

    labels: Sequence[str]
    edges: Sequence[float]
    margin: float

    def label(self, value: float, previous: str | None) -> str:
        """The label of a value for someone whose last label was `previous`."""
        if previous is not None and previous in self.labels:
            here = self.labels.index(previous)
            reaches = here == 0 or value >= self.edges[here - 1] - self.margin
            stays = here == len(self.edges) or value < self.edges[here]
            if reaches and stays:
                return previous
        return self.labels[sum(value >= edge for edge in self.edges)]

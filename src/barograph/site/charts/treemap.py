"""A treemap: one rectangle per weight, all of them together filling a box (pure)."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf

from barograph.site.charts.svg import Box


def squarified(weights: Sequence[float], box: Box) -> list[Box]:
    """Divide a box into one part per weight, each nearly square; weights must be positive.

    Rows lie along the shorter side and grow while that makes their parts more square (Bruls,
    Huizing and van Wijk, "Squarified Treemaps", 2000). Descending weights give the best shapes.
    """
    found: list[Box] = []
    sums = [*accumulate(reversed(weights), initial=0.0)][::-1]
    while len(found) < len(weights):
        start, is_wide = len(found), box.width >= box.height
        end = _row_end(weights, start, sums[start], box)
        parts = (sum(weights[start:end]), sums[end])
        row, box = _divided(box, parts, across=is_wide)
        found += _divided(row, weights[start:end], across=not is_wide)
    return found


def _row_end(weights: Sequence[float], start: int, total: float, box: Box) -> int:
    """Where the row that begins at `start` ends."""
    side = min(box.width, box.height)
    scale = box.width * box.height / total
    area, smallest, largest, worst = 0.0, inf, 0.0, inf
    for place in range(start, len(weights)):
        part = weights[place] * scale
        area, smallest, largest = area + part, min(smallest, part), max(largest, part)
        depth = area / side
        ratio = max(largest / depth**2, depth**2 / smallest)
        if ratio > worst:
            return place
        worst = ratio
    return len(weights)


def _divided(box: Box, weights: Sequence[float], *, across: bool) -> list[Box]:
    """The parts of a box, side by side, or below each other if not `across`."""
    start, size = (box.left, box.width) if across else (box.top, box.height)
    total = sum(weights)
    edges = (start + size * each / total for each in accumulate(weights, initial=0.0))
    if across:
        return [box._replace(left=first, right=last) for first, last in pairwise(edges)]
    return [box._replace(top=first, bottom=last) for first, last in pairwise(edges)]

"""A treemap: areas are proportional to weights, and the parts fill the box without overlapping."""

from itertools import combinations
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from barograph.site.charts.svg import Box
from barograph.site.heatmap import squarified

BOX = Box(10, 20, 1010, 580)
WEIGHTS = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=60)
NEARLY = 1e-6


@given(WEIGHTS, st.booleans())
def test_areas_are_proportional_to_weights(weights: list[float], is_sorted: bool) -> None:
    given = sorted(weights, reverse=True) if is_sorted else weights
    scale = BOX.width * BOX.height / sum(given)

    for weight, part in zip(given, squarified(given, BOX), strict=True):
        assert isclose(part.width * part.height, weight * scale, rel_tol=1e-5, abs_tol=NEARLY)


@given(WEIGHTS)
def test_no_part_is_outside_and_no_two_overlap(weights: list[float]) -> None:
    parts = squarified(weights, BOX)

    for each in parts:
        assert BOX.left - NEARLY <= each.left <= each.right <= BOX.right + NEARLY
        assert BOX.top - NEARLY <= each.top <= each.bottom <= BOX.bottom + NEARLY
    for one, other in combinations(parts, 2):
        across = min(one.right, other.right) - max(one.left, other.left)
        down = min(one.bottom, other.bottom) - max(one.top, other.top)
        assert min(across, down) < NEARLY


def test_equal_weights_become_nearly_square() -> None:
    parts = squarified([1.0] * 50, Box(0, 0, 1000, 560))

    assert all(0.5 < each.width / each.height < 2 for each in parts)


def test_nothing_is_divided_into_nothing() -> None:
    assert squarified([], BOX) == []

"""A line so small that it stands in a row of a table (pure)."""

from collections.abc import Sequence

from markupsafe import Markup

from barograph.markets.samples import Point
from barograph.site.charts.scale import drawable
from barograph.site.charts.svg import (
    NOTHING,
    Box,
    Frame,
    Show,
    drawing,
    number,
    path,
    plain,
    text,
    trace,
)

SIZE = (120, 32)
BOX = Box(3, 4, 116, 28)


def sparkline(points: Sequence[Point], *, name: str, show: Show = plain) -> Markup:
    """Draw points from the lowest to the highest value, without a scale."""
    values = [drawable(point.value) for point in points]
    known = [value for value in values if value is not None]
    if not known:
        return drawing(
            Frame("", name, f"{NOTHING}.", SIZE),
            text(SIZE[0] / 2, 20, NOTHING, "axis", "middle"),
            kind="spark empty",
        )
    low, high = min(known), max(known)
    missing = len(values) - len(known)
    description = (
        f"Lowest {show(low)}, highest {show(high)}, last {show(known[-1])}; "
        f"{missing or 'none'} of {len(values)} samples missing."
    )
    places = [
        None if value is None else (_x(index, len(values)), _y(value, low, high))
        for index, value in enumerate(values)
    ]
    x, y = next(place for place in reversed(places) if place is not None)
    return drawing(
        Frame("", name, description, SIZE),
        path("line", trace(places)),
        f'<circle class="last" cx="{number(x)}" cy="{number(y)}" r="2"/>',
        kind="spark",
    )


def _x(index: int, count: int) -> float:
    return BOX.right if count == 1 else BOX.left + index / (count - 1) * BOX.width


def _y(value: float, low: float, high: float) -> float:
    return BOX.y(0.5 if high == low else (value - low) / (high - low))

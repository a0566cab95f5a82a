"""A sparkline: a small line without axes (pure)."""

from collections.abc import Sequence
from functools import lru_cache

from markupsafe import Markup

SIZE = (88, 22)
_EDGE = 2
_KEPT = 4_096
"""Enough for every contract of three venues."""


def sparkline(values: Sequence[float | None], title: str = "") -> Markup:
    """Draw a line through the values, oldest first, with gaps where they are None.

    Its class is `up`, `down` or `flat`, from the first to the last known value. Without a title
    it is hidden from screen readers, because the number beside it says more.
    """
    return _drawn(tuple(values), title)


@lru_cache(maxsize=_KEPT)
def _drawn(values: tuple[float | None, ...], title: str) -> Markup:
    known = [each for each in values if each is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return Markup("")
    width, height = SIZE
    low, span = min(known), max(known) - min(known)
    across = (width - 2 * _EDGE) / (len(values) - 1)
    points, pen = [], "M"
    for number, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        share = (value - low) / span if span else 0.5
        x, y = _EDGE + number * across, height - _EDGE - share * (height - 2 * _EDGE)
        points.append(f"{pen}{x:.3g} {y:.3g}")
        pen = "L"
    way = "flat" if known[-1] == known[0] else "up" if known[-1] > known[0] else "down"
    # The texts are numbers, and Markup escapes the title.
    named = Markup('role="img" aria-label="{}"').format(title) if title else 'aria-hidden="true"'
    return Markup(
        '<svg class="spark {}" viewBox="0 0 {} {}" width="{}" height="{}" {}><path d="{}"/></svg>'
    ).format(way, width, height, width, height, Markup(named), "".join(points))  # noqa: S704

"""A sparkline: a small line without axes (pure)."""

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

SIZE = (86, 20)
"""Its width and height, without the pixel that the stroke needs around it."""


def sparkline(
    values: Sequence[float | None], size: tuple[int, int] = SIZE, every: int = 1
) -> Markup:
    """Draw a line through every nth value, oldest first, with gaps where they are None.

    Its class is `up`, `down` or `flat`, from the first to the last known value. CSS sizes it and
    screen readers skip it, because the number beside it says more. It is as short as it can be
    written: a table has hundreds.
    """
    known = [each for each in values if each is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return Markup("")
    drawn, (width, height) = values[::-every][::-1], size
    across, high, span = width / max(1, len(drawn) - 1), max(known), max(known) - min(known)
    scale = height / span if span else 0.0
    points = [
        (at, 1 + round(at * across), 1 + round((high - each) * scale))
        for at, each in enumerate(drawn)
        if each is not None
    ]
    way = "flat" if known[-1] == known[0] else "up" if known[-1] > known[0] else "down"
    # Safe: it holds only numbers.
    return Markup(f'<svg class="spark {way}"><path d="{_path(points)}"/></svg>')  # noqa: S704


def _path(points: Sequence[tuple[int, int, int]]) -> str:
    """Relative moves, with `m` across a gap."""
    moves, pen = ["M{} {}".format(*points[0][1:]) if points else "M0 0"], ""
    for (before, left, above), (at, x, y) in pairwise(points):
        # After `l`, further pairs mean the same without the letter.
        letter = "m" if at - before > 1 else " " if pen == "l" else "l"
        pen = "m" if letter == "m" else "l"
        moves.append(f"{letter}{x - left}{y - above:+d}")
    return "".join(moves)

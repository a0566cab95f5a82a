"""SVG building blocks: numbers, lines, texts and the frame of a drawing (pure)."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

Show = Callable[[float], str]
"""Formats a value without its unit."""

Place = tuple[float, float]
"""x and y in drawing units."""

NOTHING = "no data recorded"
CHARACTER = 6.2
"""The greatest average width of a character in 11-unit text."""


class Box(NamedTuple):
    """A rectangle in a drawing."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """The width."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The height."""
        return self.bottom - self.top

    def y(self, share: float) -> float:
        """The position of a share of the height."""
        return self.bottom - share * self.height

    def meets(self, start: Place, end: Place) -> bool:
        """Whether a straight line may cross the box; near a corner this can be a false alarm."""
        (x1, y1), (x2, y2) = start, end
        beside = max(x1, x2) < self.left or min(x1, x2) > self.right
        return not (beside or max(y1, y2) < self.top or min(y1, y2) > self.bottom)


class Frame(NamedTuple):
    """The name, description and size of a drawing, and the data for the crosshair script."""

    prefix: str
    """The start of all ids, unique in the page; empty: no ids."""

    name: str
    description: str
    size: tuple[int, int]
    pointing: str = ""


def drawing(frame: Frame, *parts: str, kind: str = "") -> Markup:
    """Put escaped parts into one `svg` with a name and a description."""
    width, height = frame.size
    # Safe: names and texts are escaped, and everything else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="chart{kind and " " + kind}" viewBox="0 0 {width} {height}" role="img" '
        f"{_named(frame)}{''.join(parts)}</svg>"
    )


class Digits(NamedTuple):
    """How the script writes values, so that they look as on the page."""

    least: int = 0
    most: int = 0
    signed: bool = False


def pointing(
    box: Box,
    ends: tuple[int, int, float, float],
    unit: str,
    data_url: str,
    *,
    newest: int,
    step: int,
    digits: Digits | None = None,
) -> str:
    """The attributes with which the script shows the value under the pointer.

    `ends` are those of the time axis and of the scale, `step` is the time between two values of the
    chart; the data may have more. When `newest` changes, the script reads the data again. Values
    without `digits` are amounts of USD, which it abbreviates.
    """
    if not data_url:
        return ""
    start, end, low, high = ends
    decimals = "" if digits is None else f"{digits.least} {digits.most}"
    return (
        f' data-series="{text_of(data_url)}" data-newest="{newest}" data-time="{start} {end}" '
        f'data-step="{step}" data-scale="{low:.12g} {high:.12g}" '
        f'data-box="{" ".join(map(number, box))}" data-unit="{text_of(unit)}" '
        f'data-decimals="{decimals}"'
        + (' data-sign="always"' if digits is not None and digits.signed else "")
    )


def text(
    x: float, y: float, words: str, kind: str, anchor: str = "", *, narrowed: float = 1.0
) -> str:
    """A text that starts at a place, or has its `middle` or `end` there."""
    place = f'x="{number(x)}" y="{number(y)}"'
    if narrowed < 1:
        place = f'transform="translate({number(x)} {number(y)}) scale({number(narrowed)} 1)"'
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" {place}{anchored}>{text_of(words)}</text>'


def path(kind: str, steps: str, extra: str = "") -> str:
    """A line or shape; empty if there are no steps."""
    return f'<path class="{kind}" d="{steps}"{extra}/>' if steps else ""


def block(x: float, y: float, width: float, height: float) -> str:
    """The path of a rectangle."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


def trace(points: Iterable[Place | None]) -> str:
    """The path of a line through points, interrupted at None.

    Steps are relative to the previous point as it was rounded: short, and without drift.
    """
    steps: list[str] = []
    x = y = 0
    is_open = True
    for point, after in pairwise([*points, None]):
        if point is None:
            is_open = True
            continue
        to_x, to_y = round(point[0] * 10), round(point[1] * 10)
        if is_open:
            steps.append(("m" if steps else "M") + _pair(to_x - x, to_y - y))
            # A single point is a line of length zero, drawn as its round ends.
            steps.append("h0" if after is None else "l" if len(steps) == 1 else " ")
        else:
            steps.append(_pair(to_x - x, to_y - y) + ("" if after is None else " "))
        x, y, is_open = to_x, to_y, False
    return "".join(steps).replace(" -", "-")


def number(value: float) -> str:
    """A number with one decimal, as short as possible."""
    return tenths(round(value * 10))


@lru_cache(8192)
def tenths(count: int) -> str:
    """A number of tenths: `12`, `-3.5`, `.1`."""
    whole, rest = divmod(abs(count), 10)
    sign = "-" if count < 0 else ""
    return f"{sign}{whole or ''}.{rest}" if rest else f"{sign}{whole}"


def name_of(prefix: str) -> str:
    """The prefix, checked because it is not escaped."""
    if _PREFIX.fullmatch(prefix) is None:
        raise ValueError("a prefix has letters, digits and hyphens")
    return prefix


def text_of(words: str) -> str:
    """Words as XML; characters that XML does not allow become spaces."""
    return str(escape(_UNDRAWABLE.sub(" ", words)))


def widest(labels: Sequence[str]) -> float:
    """The width of the longest label."""
    return max(len(label) for label in labels) * CHARACTER


def _named(frame: Frame) -> str:
    """The rest of the tag, with name and description."""
    name, description = text_of(frame.name), text_of(frame.description)
    if not frame.prefix:
        return f'font-size="11" aria-label="{name}. {description}"{frame.pointing}>'
    prefix = name_of(frame.prefix)
    return (
        f'font-size="11" aria-labelledby="{prefix}-t {prefix}-d"{frame.pointing}>'
        f'<title id="{prefix}-t">{name}</title><desc id="{prefix}-d">{description}</desc>'
    )


def _pair(x: int, y: int) -> str:
    return f"{tenths(x)} {tenths(y)}"


_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}", re.ASCII)
_UNDRAWABLE = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

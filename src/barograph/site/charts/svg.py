"""What all drawings share: numbers, lines, texts and the frame around them (pure)."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from barograph.kit.timestamps import iso_timestamp

Show = Callable[[float], str]
"""Writes a value for people, without its unit."""

Place = tuple[float, float]
"""Across and down, in units of a drawing."""

NOTHING = "no data recorded"
CHARACTER = 6.2
"""How wide a character is at most on average, in units of a drawing whose text is 11 high."""


class Box(NamedTuple):
    """The part of a drawing where values are."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top

    def y(self, share: float) -> float:
        """The height of a share of the scale."""
        return self.bottom - share * self.height

    def meets(self, start: Place, end: Place) -> bool:
        """Whether a straight line may cross the box; near a corner it may also miss it."""
        (x1, y1), (x2, y2) = start, end
        beside = max(x1, x2) < self.left or min(x1, x2) > self.right
        return not (beside or max(y1, y2) < self.top or min(y1, y2) > self.bottom)


class Frame(NamedTuple):
    """What a whole drawing is called, and what a script must know to point into it."""

    prefix: str
    """Begins every id of the drawing, so no other of the page may have it; empty: it has no ids."""

    name: str
    description: str
    size: tuple[int, int]
    pointing: str = ""


def plain(value: float) -> str:
    """A value with six significant digits."""
    return f"{value:,.6g}"


def drawing(frame: Frame, *parts: str, kind: str = "") -> Markup:
    """Put parts, which are safe already, into one `svg` that names and describes itself."""
    width, height = frame.size
    # Safe by construction: names and texts are escaped, everything else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="chart{kind and " " + kind}" viewBox="0 0 {width} {height}" role="img" '
        f"{_named(frame)}{''.join(parts)}</svg>"
    )


def pointing(
    box: Box,
    span: tuple[int, int],
    unit: str,
    data_url: str,
    *,
    signed: bool = False,
    decimals: int = 0,
) -> str:
    """The attributes by which a script finds the value under the pointer, if it may.

    A value that is `signed` is always shown with its sign, and with at least so many `decimals`.
    """
    if not data_url:
        return ""
    start, end = span
    return (
        f' data-series="{text_of(data_url)}" data-from="{start}" data-to="{end}" '
        f'data-left="{number(box.left)}" data-right="{number(box.right)}" '
        f'data-top="{number(box.top)}" data-bottom="{number(box.bottom)}" '
        f'data-unit="{text_of(unit)}" data-decimals="{decimals}"'
        + (' data-sign="always"' if signed else "")
    )


def text(x: float, y: float, words: str, kind: str, anchor: str = "") -> str:
    """A text at a place, which is its left end, or the `middle` or `end` of it."""
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}"{place}>{text_of(words)}</text>'


def path(kind: str, steps: str, extra: str = "") -> str:
    """A line or a shape; nothing where there are no steps."""
    return f'<path class="{kind}" d="{steps}"{extra}/>' if steps else ""


def block(x: float, y: float, width: float, height: float) -> str:
    """The steps around a rectangle."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


def trace(points: Iterable[Place | None]) -> str:
    """The steps of a line through points; it is left open where there is none.

    Steps are counted in tenths from the point before, as that was drawn: short, and without drift.
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
            # A point alone is a line of no length, of which the round ends are seen.
            steps.append("h0" if after is None else "l" if len(steps) == 1 else " ")
        else:
            steps.append(_pair(to_x - x, to_y - y) + ("" if after is None else " "))
        x, y, is_open = to_x, to_y, False
    return "".join(steps).replace(" -", "-")


def number(value: float) -> str:
    """A number with one decimal, as short as it can be."""
    return tenths(round(value * 10))


@lru_cache(8192)
def tenths(count: int) -> str:
    """So many tenths: `12`, `-3.5`, `.1`."""
    whole, rest = divmod(abs(count), 10)
    sign = "-" if count < 0 else ""
    return f"{sign}{whole or ''}.{rest}" if rest else f"{sign}{whole}"


def name_of(prefix: str) -> str:
    """A prefix of ids, or an error: it is written into the page as it stands."""
    if _PREFIX.fullmatch(prefix) is None:
        raise ValueError("a prefix has letters, digits and hyphens")
    return prefix


def text_of(words: str) -> str:
    """Words as XML; what XML cannot hold becomes a space."""
    return str(escape(_UNDRAWABLE.sub(" ", words)))


def instant(at: int) -> str:
    """An instant for people."""
    exact = iso_timestamp(at)
    return f"{exact[:10]} {exact[11:16]} UTC"


def widest(labels: Sequence[str]) -> float:
    """Room for the longest of these."""
    return max(len(label) for label in labels) * CHARACTER


def _named(frame: Frame) -> str:
    """The rest of the tag, and what the drawing is called."""
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

"""A chart as an image of its own, with the site's colours and its source (pure)."""

import re
from collections.abc import Sequence
from math import floor
from typing import NamedTuple

from barograph.site.charts.lines import SIZE
from barograph.site.charts.svg import text, text_of

EDGE = 8
TITLE_HEIGHT = 24
LINE_HEIGHT = 11
PIXELS = 1.5
"""Per unit: the size of the image where nobody asks for another."""

LINES = 3
NARROW_CHARACTER = 4.6
"""The greatest average width of a character in 8-unit text."""

WIDTH = SIZE[0] + 2 * EDGE
HEIGHT = EDGE + TITLE_HEIGHT + SIZE[1] + LINES * LINE_HEIGHT + EDGE
IMAGE_SIZE = (round(WIDTH * PIXELS), round(HEIGHT * PIXELS))

_OWN_RULES = (
    ".chart text{font-size:8.5px}.ground{fill:var(--raised);stroke:var(--line)}"
    "text{fill:var(--quiet);font-family:var(--figures)}"
    "text.title{fill:var(--text);font-size:12px;font-weight:600}.line-below{font-size:8px}"
)
_DRAWING_RULE = re.compile(r"^\.chart[ :][a-z.][^{}]*\{[^{}]*\}", re.MULTILINE)
_VARIABLE = re.compile(r"--([\w-]+): ([^;]+);")
_BOTH = re.compile(r"light-dark\(([^,]+), ([^)]+)\)")


class ImageText(NamedTuple):
    """What stands above and below the drawing."""

    title: str
    below: Sequence[str]
    """At most three lines."""


def image_style(stylesheet: str) -> str:
    """The rules of drawings from the site's stylesheet, with its colours for light and dark."""
    rules = _OWN_RULES + _short("".join(_DRAWING_RULE.findall(stylesheet)))
    light, dark = _colours(stylesheet)
    used = sorted(set(re.findall(r"var\(--([\w-]+)\)", rules)))
    values = ";".join(f"--{name}:{light[name]}" for name in used)
    changed = ";".join(f"--{name}:{dark[name]}" for name in used if name in dark)
    return f"svg{{{values}}}@media (prefers-color-scheme:dark){{svg{{{changed}}}}}{rules}"


def _colours(stylesheet: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables in light and dark; those without `light-dark()` are only among the first."""
    found = _VARIABLE.findall(stylesheet)
    light = {name: _BOTH.sub(r"\1", value) for name, value in found}
    return light, {name: both[2] for name, value in found if (both := _BOTH.fullmatch(value))}


def _short(rules: str) -> str:
    return re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r"\s+", " ", rules)).replace(";}", "}")


def _narrowed(line: str) -> float:
    """How much narrower than usual a line must be to fit."""
    return min(1.0, floor(10 * SIZE[0] / (max(1, len(line)) * NARROW_CHARACTER)) / 10)


def image(drawn: str, words: ImageText, style: str) -> str:
    """Put a drawing, which is safe, between texts, which are escaped."""
    width, height = IMAGE_SIZE
    top = EDGE + TITLE_HEIGHT
    below = top + SIZE[1]
    placed = str(drawn).replace(  # Markup would escape the attributes
        "<svg ", f'<svg x="{EDGE}" y="{top}" width="{SIZE[0]}" height="{SIZE[1]}" ', 1
    )
    lines = [
        text(EDGE, below + LINE_HEIGHT * number, line, "line-below", narrowed=_narrowed(line))
        for number, line in enumerate(words.below, 1)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><title>{text_of(words.title)}</title>'
        f'<style>{style}</style><rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" '
        f'height="{HEIGHT - 1}" rx="6"/>{text(EDGE, EDGE + 12, words.title, "title")}'
        f"{placed}{''.join(lines)}</svg>"
    )

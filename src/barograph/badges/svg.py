"""Draws badges as SVG (pure).

The geometry is that of Shields, so that both look alike in one row: 20 pixels high, text in Verdana
with 5 pixels on either side. Drawing must be fast, because anyone can request a badge for any date.
"""

import re
from functools import lru_cache, reduce
from html import escape
from operator import add
from typing import Literal, NamedTuple

from barograph import NOTICE

FONT_PIXELS = 11
UNITS_PER_EM = 2048

_CHARACTERS_BY_UNITS = {
    549: "'",
    562: "il",
    705: "j",
    720: " f",
    745: ",.·",
    806: "!t",
    862: "I",
    873: "r",
    931: "()-/:;J[\\]|",
    940: '"',
    1067: "cs",
    1076: "z",
    1117: "?",
    1139: "L",
    1177: "F",
    1212: "kvxy",
    1219: "e",
    1230: "a",
    1235: "P",
    1244: "o",
    1260: "Y",
    1262: "T",
    1275: "bdgpq",
    1296: "Ehnu",
    1300: "{}",
    1302: "$*0123456789_`\N{EN DASH}",
    1400: "ASV",
    1404: "BXZ",
    1419: "K",
    1424: "R",
    1430: "C",
    1488: "&",
    1499: "U",
    1532: "N",
    1540: "H",
    1579: "D",
    1588: "G",
    1612: "OQ",
    1676: "#+<=>^w~\N{MINUS SIGN}",
    1726: "M",
    1992: "m",
    2026: "W",
    2048: "@",
    2204: "%",
}
"""Advance widths of Verdana in font units."""


class _Advances(dict[str, float]):
    """Pixels by character; an unknown character gets a whole em, which is enough."""

    def __missing__(self, _: str) -> float:
        return float(FONT_PIXELS)


def text_width(text: str) -> float:
    """The width of a text in pixels.

    Floats are added from left to right, as in Shields. Another order or exact arithmetic would
    round some texts to another pixel.
    """
    return reduce(add, map(_ADVANCES.__getitem__, text), 0.0)


def drawn_width(text: str) -> int:
    """The width of a text on a badge: an odd number of pixels, so that it looks sharp."""
    return int(text_width(text)) | 1


# Rounded to hundredths of a pixel, as browsers measure.
_ADVANCES = _Advances(
    (character, round(100 * units * FONT_PIXELS / UNITS_PER_EM) / 100)
    for units, characters in _CHARACTERS_BY_UNITS.items()
    for character in characters
)


Style = Literal["flat", "flat-square"]

# The meanings of the site's stylesheet, in its light colours. White text has a contrast of 4.5 or
# more on each of these (WCAG AA).
GOOD = "#1a6b34"
WARN = "#7d5a00"
BAD = "#a61c4c"
LONG = "#0f6e6a"
SHORT = "#b4432c"
MEASURED = "#1f66b8"
UNKNOWN = "#6e7781"
LABEL_GREY = "#555555"

PADDING = 5
CACHED_TEXTS = 2048


class Badge(NamedTuple):
    """A label on grey, a message on a colour, and the texts for tooltips and screen readers."""

    label: str
    message: str
    colour: str
    """One of the colours above."""

    style: Style
    title: str
    description: str


def render(badge: Badge) -> str:
    """Draw a badge; characters that XML does not allow become spaces."""
    label, label_width = _measured(badge.label)
    message, message_width = _measured(badge.message)
    title = escape(_drawable(badge.title))
    left = label_width + 2 * PADDING
    width = left + message_width + 2 * PADDING
    # As in Shields, the texts are one pixel closer to each other than to the edges.
    label_at = f'x="{5 * label_width + 10 * (PADDING + 1)}" textLength="{10 * label_width}"'
    message_x = 5 * message_width + 10 * (left + PADDING - 1)
    message_at = f'x="{message_x}" textLength="{10 * message_width}"'
    if badge.style == "flat":
        shape = _rounded(left, width, badge.colour)
        shadows = (
            f'<g fill="#000" fill-opacity=".3" aria-hidden="true"><text y="150" {label_at}>{label}'
            f'</text><text y="150" {message_at}>{message}</text></g>'
        )
    else:
        shape, shadows = _square(left, width, badge.colour), ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f"<desc>{_described(badge.description)} {_NOTICE}</desc>{shape}{_TEXTS}{shadows}"
        f'<text y="140" {label_at}>{label}</text>'
        f'<text y="140" {message_at}>{message}</text></g></svg>'
    )


def _rounded(left: int, width: int, colour: str) -> str:
    """Both fields with round corners and a gradient.

    Corners are drawn instead of clipped, so that no id must be unique in a page with several
    badges. The gradient only darkens, so that it never lowers the contrast.
    """
    edge = width - 3
    return (
        f'{_SHADE}<path fill="{LABEL_GREY}" d="M3 0H{left}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0Z"/>'
        f'<path fill="{colour}" d="M{left} 0H{edge}A3 3 0 0 1 {width} 3V17A3 3 0 0 1 {edge} 20'
        f'H{left}Z"/><rect width="{width}" height="20" rx="3" fill="url(#shade)"/>'
    )


def _square(left: int, width: int, colour: str) -> str:
    return (
        f'<path fill="{LABEL_GREY}" d="M0 0H{left}V20H0Z"/>'
        f'<path fill="{colour}" d="M{left} 0H{width}V20H{left}Z"/>'
    )


@lru_cache(CACHED_TEXTS)
def _measured(text: str) -> tuple[str, int]:
    """A text as XML, and its width."""
    drawable = _drawable(text)
    return escape(drawable), drawn_width(drawable)


@lru_cache(CACHED_TEXTS)
def _described(text: str) -> str:
    """A description as XML; cached, because descriptions are few and long."""
    return escape(_drawable(text))


def _drawable(text: str) -> str:
    if text.isascii() and text.isprintable():  # much faster to check
        return text
    return _UNDRAWABLE.sub(" ", text)


_NOTICE = escape(NOTICE)
# Controls, surrogates, and characters that change the direction of text.
_UNDRAWABLE = re.compile(
    "[^\x20-\x7e\xa0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd"
    "\U00010000-\U0010ffff]"
)
_SHADE = (
    '<linearGradient id="shade" x2="0" y2="1"><stop stop-opacity="0"/>'
    '<stop offset="1" stop-opacity=".14"/></linearGradient>'
)
# Drawn ten times as large and scaled down, because browsers snap small letters to whole pixels.
_TEXTS = (
    '<g transform="scale(.1)" fill="#fff" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" '
    'font-size="110" text-anchor="middle" text-rendering="geometricPrecision">'
)

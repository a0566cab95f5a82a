"""Where badges are drawn (pure).

The geometry is that of Shields, so that badges of both stand in one row: twenty pixels high, each
text in Verdana with five pixels on either side. A badge may be asked for with any date, so that
drawing has to be quick: constants with few holes, and texts that are looked at once.
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
"""Advance widths in font units."""


class _Advances(dict[str, float]):
    """Pixels by character; one that is not known takes a whole em, so that it has room enough."""

    def __missing__(self, _: str) -> float:
        return float(FONT_PIXELS)


def text_width(text: str) -> float:
    """The width of a text in pixels.

    Added up from left to right in binary fractions, as Shields does it: another order or exact
    arithmetic would put some texts on the other side of a whole pixel.
    """
    return reduce(add, map(_ADVANCES.__getitem__, text), 0.0)


def drawn_width(text: str) -> int:
    """The width that a text is given on a badge: whole pixels, and odd, so that it sits sharply."""
    return int(text_width(text)) | 1


# A browser measures to hundredths of a pixel, and so does everybody who measured with one.
_ADVANCES = _Advances(
    (character, round(100 * units * FONT_PIXELS / UNITS_PER_EM) / 100)
    for units, characters in _CHARACTERS_BY_UNITS.items()
    for character in characters
)


Style = Literal["flat", "flat-square"]

# White text has a contrast of 4.5 or more on each of these (WCAG AA).
GREEN = "#1a7f37"
AMBER = "#9a6700"
RED = "#c2333a"
GREY = "#6e7781"
BLUE = "#0969da"
LABEL_GREY = "#555555"

PADDING = 5
KEPT_TEXTS = 2048


class Badge(NamedTuple):
    """What is drawn: a label on grey and a message on a colour, and what hovering tells."""

    label: str
    message: str
    colour: str
    """One of the colours above."""

    style: Style
    title: str
    description: str


def render(badge: Badge) -> str:
    """Draw a badge; texts may hold anything, and what XML cannot hold becomes a space."""
    label, label_width = _measured(badge.label)
    message, message_width = _measured(badge.message)
    title = escape(_drawable(badge.title))
    left = label_width + 2 * PADDING
    width = left + message_width + 2 * PADDING
    # One pixel to the right, the message one to the left: the texts lean towards each other.
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

    Corners are drawn instead of clipped, and the gradient only darkens: nothing has to be unique
    in a page that holds several badges, and no part has less contrast than its colour.
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


@lru_cache(KEPT_TEXTS)
def _measured(text: str) -> tuple[str, int]:
    """A text as XML, and the width that it gets."""
    drawable = _drawable(text)
    return escape(drawable), drawn_width(drawable)


@lru_cache(KEPT_TEXTS)
def _described(text: str) -> str:
    """A description as XML; there are few and they are long."""
    return escape(_drawable(text))


def _drawable(text: str) -> str:
    if text.isascii() and text.isprintable():  # which is much quicker to tell
        return text
    return _UNDRAWABLE.sub(" ", text)


_NOTICE = escape(NOTICE)
# Controls, surrogates, and what may turn the direction of a text around.
_UNDRAWABLE = re.compile(
    "[^\x20-\x7e\xa0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd"
    "\U00010000-\U0010ffff]"
)
_SHADE = (
    '<linearGradient id="shade" x2="0" y2="1"><stop stop-opacity="0"/>'
    '<stop offset="1" stop-opacity=".14"/></linearGradient>'
)
# Ten times as large and scaled down: browsers place small letters on whole pixels otherwise.
_TEXTS = (
    '<g transform="scale(.1)" fill="#fff" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" '
    'font-size="110" text-anchor="middle" text-rendering="geometricPrecision">'
)

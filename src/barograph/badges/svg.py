"""Draws badges and the regime gauge as SVG (pure).

The geometry of badges is that of Shields, so that both look alike in one row: 20 pixels high, text
in Verdana with 5 pixels on either side. Drawing must be fast, because anyone can request a badge
for any date. The gauge holds its colours for light and dark pages, because an image can't use a
page's styles.
"""

import re
from functools import lru_cache, reduce
from html import escape
from operator import add
from typing import Literal, NamedTuple

from barograph import NOTICE
from barograph.markets.regime import EDGES_PCT, LABELS, Label

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


def signed_rate(rate: float) -> str:
    """Four decimals with a true minus sign; zero has no sign."""
    text = f"{rate:+.4f}"
    if text[1:] == "0.0000":
        return text[1:]
    return text.replace("-", "\N{MINUS SIGN}")


GAUGE_SIZE = (340, 100)
LEFT, RIGHT = 6, 314
ENDS_PCT = (-0.05, 0.05)
"""The ends of the scale; a rate beyond them is marked at the end."""


class GaugeContent(NamedTuple):
    """What the gauge shows; without a label fresh data is unavailable."""

    label: Label | None
    rate_8h_pct: float | None
    source: str

    @property
    def is_error(self) -> bool:
        """Whether the regime is unknown; such an image is cached briefly."""
        return self.label in (None, "unknown")


def render_gauge(content: GaugeContent) -> str:
    """Draw the scale with its title and the rate, on a ground of its own."""
    width, height = GAUGE_SIZE
    label = "unavailable" if content.label is None else content.label
    rate = "" if content.rate_8h_pct is None else f"{signed_rate(content.rate_8h_pct)} % / 8h"
    title = f"BTC funding regime: {label}"
    source = f"Source: {content.source}." if content.source else "Fresh market data is unavailable."
    made = "simulated data" if content.source.startswith("simulated ") else "barograph"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{title}{rate and ", " + rate}">'
        f"<title>{title}</title><desc>{escape(source)} {escape(NOTICE)}</desc>{_STYLE}"
        f'<rect class="ground" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="6"/>'
        '<g transform="translate(10 20)">'
        f"{_text(LEFT, 1, f'BTC funding: {label}', 'title', 'start')}"
        f"{_text(RIGHT, 1, rate, 'title', 'end')}{_text((LEFT + RIGHT) / 2, 71, made)}"
        f"{scale_of_bands(content.label, content.rate_8h_pct)}</g></svg>"
    )


def scale_of_bands(label: Label | None, rate_8h_pct: float | None) -> str:
    """The five bands, the current one marked, their edges, and a marker at the rate if known.

    Pages draw it too, with the colours of their stylesheet.
    """
    ends = gauge_x(ENDS_PCT[0]), *map(gauge_x, EDGES_PCT), gauge_x(ENDS_PCT[1])
    drawn = ""
    for each, left, right in zip(LABELS, ends, ends[1:], strict=False):
        kind = f"band band-{each}{' now' if each == label else ''}"
        drawn += f'<path class="{kind}" d="M{left + 0.5:g} 26H{right - 0.5:g}V43H{left + 0.5:g}z"/>'
        # Only the second word fits; "shorts pay" and "longs pay" below the ends name the sides.
        drawn += _text((left + right) / 2, 38.3, each.split("-")[-1], "word")
    drawn += "".join(_text(gauge_x(edge), 57, f"{edge:g}") for edge in EDGES_PCT)
    drawn += _text(LEFT, 71, "shorts pay", anchor="start") + _text(
        RIGHT, 71, "longs pay", anchor="end"
    )
    if rate_8h_pct is None:
        return drawn
    return f'{drawn}<path class="marker" d="M{gauge_x(rate_8h_pct):g} 25l-5-8h10z"/>'


def gauge_x(rate_pct: float) -> float:
    """The place of a rate on the scale."""
    low, high = ENDS_PCT
    share = (min(max(rate_pct, low), high) - low) / (high - low)
    return round(LEFT + share * (RIGHT - LEFT), 1)


def _text(x: float, y: float, words: str, kind: str = "axis", anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


# The stylesheet's ground, line, quiet, text, ink, trace, and tints from --down-3 to --up-3.
_RULES = (
    ".ground{{fill:{};stroke:{}}}text{{fill:{}}}.title,.word{{fill:{}}}.now{{stroke:{}}}"
    ".marker{{fill:{}}}" + "".join(f".band-{label}{{{{fill:{{}}}}}}" for label in LABELS)
)
_LIGHT = ("#ffffff", "#d8dee3", "#55626c", "#16232d", "#12324a", "#1f66b8")
_LIGHT_BANDS = ("#eba591", "#fae6e0", "#eceff2", "#dcf0ee", "#8accc6")
_DARK = ("#14222c", "#2a3b47", "#a3b1bb", "#e8edf0", "#d7e6f0", "#7db4f0")
_DARK_BANDS = ("#8e422f", "#572e23", "#1b2a34", "#153f3c", "#17635c")
_STYLE = (
    "<style>text{font:11px system-ui,-apple-system,Segoe UI,Roboto,DejaVu Sans,sans-serif}"
    ".title{font-size:13px;font-weight:700}.now{stroke-width:2}"
    f"{_RULES.format(*_LIGHT, *_LIGHT_BANDS)}"
    f"@media(prefers-color-scheme:dark){{{_RULES.format(*_DARK, *_DARK_BANDS)}}}</style>"
)

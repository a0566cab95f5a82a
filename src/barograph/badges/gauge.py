"""Draws the regime gauge as an image for other websites (pure).

The colours are in the file, for light and dark pages, because an image can't use a page's styles.
"""

from html import escape
from typing import NamedTuple

from barograph import NOTICE
from barograph.badges.contents import signed_rate
from barograph.markets.regime import EDGES_PCT, LABELS, Label

SIZE = (340, 100)
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
    width, height = SIZE
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

"""Draws the regime gauge as an image for other websites (pure).

The colours are in the file, for light and dark pages, because an image can't use a page's styles.
"""

from html import escape
from typing import NamedTuple

from barograph import NOTICE
from barograph.badges.contents import signed_rate
from barograph.markets.regime import EDGES_PCT, LABELS, Label

SIZE = (340, 100)
LEFT, RIGHT = 10, 330
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
    """Draw the five bands, the current one with a border, and a marker at the rate."""
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
        f'<rect class="g" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="6"/>'
        f'<text class="t" x="{LEFT}" y="21">BTC funding: {label}</text>'
        f'<text class="t" x="{RIGHT}" y="21" text-anchor="end">{rate}</text>'
        f"{_bands(content)}{_marker(content)}{_text(LEFT, 92, 'shorts pay', 'start')}"
        f"{_text((LEFT + RIGHT) / 2, 92, made)}{_text(RIGHT, 92, 'longs pay', 'end')}</svg>"
    )


def _bands(content: GaugeContent) -> str:
    edges = (ENDS_PCT[0], *EDGES_PCT, ENDS_PCT[1])
    drawn = ""
    for number, (label, low, high) in enumerate(zip(LABELS, edges, edges[1:], strict=False)):
        left, right = _x(low), _x(high)
        kind = f"b{number}{' now' if label == content.label else ''}"
        drawn += f'<path class="{kind}" d="M{left + 0.5:g} 42H{right - 0.5:g}V62H{left + 0.5:g}Z"/>'
        drawn += f'<text class="w" x="{(left + right) / 2:g}" y="56">{label.split("-")[-1]}</text>'
    return drawn + "".join(_text(_x(edge), 76, f"{edge:+g}") for edge in EDGES_PCT)


def _marker(content: GaugeContent) -> str:
    if content.rate_8h_pct is None:
        return ""
    return f'<path class="m" d="M{_x(content.rate_8h_pct):g} 41l-5-8h10z"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def _x(rate_pct: float) -> float:
    low, high = ENDS_PCT
    share = (min(max(rate_pct, low), high) - low) / (high - low)
    return round(LEFT + share * (RIGHT - LEFT), 1)


# The stylesheet's ground, text, quiet, trace, and tints from --down-3 to --up-3.
_RULES = (
    ".g{{fill:{};stroke:{}}}text{{fill:{}}}.t,.w{{fill:{}}}.now{{stroke:{}}}.m{{fill:{}}}"
    ".b0{{fill:{}}}.b1{{fill:{}}}.b2{{fill:{}}}.b3{{fill:{}}}.b4{{fill:{}}}"
)
_LIGHT = ("#ffffff", "#d8dee3", "#55626c", "#16232d", "#12324a", "#1f66b8")
_LIGHT_BANDS = ("#eba591", "#fae6e0", "#eceff2", "#dcf0ee", "#8accc6")
_DARK = ("#14222c", "#2a3b47", "#a3b1bb", "#e8edf0", "#d7e6f0", "#7db4f0")
_DARK_BANDS = ("#8e422f", "#572e23", "#1b2a34", "#153f3c", "#17635c")
_STYLE = (
    "<style>text{font:11px system-ui,-apple-system,Segoe UI,Roboto,DejaVu Sans,sans-serif}"
    ".t{font-size:13px;font-weight:700}.w{text-anchor:middle}.now{stroke-width:2}"
    f"{_RULES.format(*_LIGHT, *_LIGHT_BANDS)}"
    f"@media(prefers-color-scheme:dark){{{_RULES.format(*_DARK, *_DARK_BANDS)}}}</style>"
)

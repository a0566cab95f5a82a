"""The regime gauge of a page, which is drawn as the badge is (pure)."""

from markupsafe import Markup

from barograph.badges.gauge import LEFT, RIGHT, gauge_x, scale_of_bands
from barograph.kit.text import rate
from barograph.markets.regime import EDGES_PCT, LABELS, Label
from barograph.site.charts.scale import Band, drawable
from barograph.site.charts.svg import Frame, drawing, text

REGIME_BANDS = tuple(
    Band(label, low, high)
    for label, low, high in zip(LABELS, (None, *EDGES_PCT), (*EDGES_PCT, None), strict=True)
)
"""The bands of BTC's funding rate in percent per eight hours."""

SIZE = (320, 72)
HALF_VALUE = 56
"""Half the width of the rate."""


def gauge(label: Label, rate_pct: float | None, *, prefix: str) -> Markup:
    """Draw the current label, and the rate in percent per eight hours if it is known."""
    known = drawable(rate_pct)
    written = "unknown" if known is None else f"{rate(known)} per 8 h"
    description = (
        f"BTC perpetual funding rate: {written}. Five bands from short-crowded to "
        f"long-crowded, with edges at {', '.join(f'{edge:+g}' for edge in EDGES_PCT)} percent."
    )
    x = (LEFT + RIGHT) / 2 if known is None else gauge_x(known)
    value = text(min(max(x, LEFT + HALF_VALUE), RIGHT - HALF_VALUE), 12, written, "value", "middle")
    frame = Frame(prefix, f"Regime: {label}", description, SIZE)
    return drawing(frame, scale_of_bands(label, known), value, kind="gauge")

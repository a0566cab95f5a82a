"""The regime gauge: five bands, and a marker at the current rate (pure)."""

from markupsafe import Markup

from barograph.markets.regime import EDGES_PCT, LABELS, Label
from barograph.site.charts.scale import Band, Scale, drawable
from barograph.site.charts.svg import Box, Frame, block, drawing, number, path, text

REGIME_BANDS = tuple(
    Band(label, low, high)
    for label, low, high in zip(LABELS, (None, *EDGES_PCT), (*EDGES_PCT, None), strict=True)
)
"""The bands of BTC's funding rate in percent per eight hours."""

SIZE = (320, 72)
BOX = Box(6, 26, 314, 43)
ENDS_PCT = (-0.05, 0.05)
"""The ends of the scale; a rate beyond them is marked at the end and shown as a number."""

GAP = 1.0


def gauge(label: Label, rate_pct: float | None, *, prefix: str) -> Markup:
    """Draw the current label, and the rate in percent per eight hours if it is known."""
    rate = drawable(rate_pct)
    scale = Scale(*ENDS_PCT, EDGES_PCT, [f"{edge:+g}" for edge in EDGES_PCT])
    written = "unknown" if rate is None else f"{rate:+.4f} %"
    name = f"Regime: {label}"
    description = (
        f"BTC perpetual funding rate: {written} per 8 hours. Five bands from short-crowded to "
        f"long-crowded, with edges at {', '.join(scale.labels)} percent."
    )
    marker = _no_marker() if rate is None else _marker(scale, rate, written)
    frame = Frame(prefix, name, description, SIZE)
    return drawing(frame, _bands(scale, label), _edges(scale), marker, kind="gauge")


def _x(scale: Scale, value: float) -> float:
    return BOX.left + scale.share(value) * BOX.width


def _bands(scale: Scale, label: Label) -> str:
    parts = []
    for band in REGIME_BANDS:
        low, high = band.clipped(scale.low, scale.high)
        left, right = _x(scale, low), _x(scale, high)
        kind = f"band band-{band.label}{' now' if band.label == label else ''}"
        steps = block(left + GAP / 2, BOX.top, right - left - GAP, BOX.height)
        # Only the second word fits; "shorts pay" and "longs pay" below the ends name the sides.
        word = text(
            (left + right) / 2, BOX.bottom - 4.7, band.label.split("-")[-1], "word", "middle"
        )
        parts.append(path(kind, steps) + word)
    return "".join(parts)


def _edges(scale: Scale) -> str:
    labels = [
        text(_x(scale, edge), BOX.bottom + 14, label, "axis", "middle")
        for edge, label in zip(scale.marks, scale.labels, strict=True)
    ]
    ends = text(BOX.left, SIZE[1] - 1, "shorts pay", "legend") + text(
        BOX.right, SIZE[1] - 1, "longs pay", "legend", "end"
    )
    return "".join(labels) + ends


def _marker(scale: Scale, rate: float, written: str) -> str:
    x = _x(scale, rate)
    point = f"M{number(x)} {number(BOX.top - 1)}l-5-8h10z"
    anchor, at = "middle", x
    if x < BOX.left + 40:
        anchor, at = "", BOX.left
    elif x > BOX.right - 40:
        anchor, at = "end", BOX.right
    return path("marker", point) + text(at, 12, written, "value", anchor)


def _no_marker() -> str:
    return text((BOX.left + BOX.right) / 2, 12, "unknown", "value", "middle")

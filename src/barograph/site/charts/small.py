"""Small drawings without axes: sparklines, the regime gauge, uptime strips and lanes (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from barograph.badges.svg import LEFT, RIGHT, gauge_x, scale_of_bands
from barograph.kit.text import rate
from barograph.kit.timestamps import HOUR
from barograph.markets.regime import EDGES_PCT, LABELS, Label
from barograph.signals.records import UNKNOWN
from barograph.site.charts.axes import Band, drawable
from barograph.site.charts.svg import Frame, drawing, number, text
from barograph.status.rules import Condition

SPARK_SIZE = (86, 20)
"""Its width and height, without the pixel that the stroke needs around it."""


def sparkline(
    values: Sequence[float | None], size: tuple[int, int] = SPARK_SIZE, every: int = 1
) -> Markup:
    """Draw a line through every nth value, oldest first, with gaps where they are None.

    Its class is `up`, `down` or `flat`, from the first to the last known value. CSS sizes it and
    screen readers skip it, because the number beside it says more. It is as short as it can be
    written: a table has hundreds.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return Markup("")
    drawn, (width, height) = values[::-every][::-1], size
    across, high, span = width / max(1, len(drawn) - 1), max(known), max(known) - min(known)
    scale = height / span if span else 0.0
    points = [
        (at, 1 + round(at * across), 1 + round((high - each) * scale))
        for at, each in enumerate(drawn)
        if each is not None
    ]
    way = "flat" if known[-1] == known[0] else "up" if known[-1] > known[0] else "down"
    # Safe: it holds only numbers.
    return Markup(f'<svg class="spark {way}"><path d="{_path(points)}"/></svg>')  # noqa: S704


def _path(points: Sequence[tuple[int, int, int]]) -> str:
    """Relative moves, with `m` across a gap."""
    moves, pen = ["M{} {}".format(*points[0][1:]) if points else "M0 0"], ""
    for (before, left, above), (at, x, y) in pairwise(points):
        # After `l`, further pairs mean the same without the letter.
        letter = "m" if at - before > 1 else " " if pen == "l" else "l"
        pen = "m" if letter == "m" else "l"
        moves.append(f"{letter}{x - left}{y - above:+d}")
    return "".join(moves)


REGIME_BANDS = tuple(
    Band(label, low, high)
    for label, low, high in zip(LABELS, (None, *EDGES_PCT), (*EDGES_PCT, None), strict=True)
)
"""The bands of BTC's funding rate in percent per eight hours."""

GAUGE_SIZE = (320, 72)
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
    frame = Frame(prefix, f"Regime: {label}", description, GAUGE_SIZE)
    return drawing(frame, scale_of_bands(label, known), value, kind="gauge")


STEP: Final = 5
WIDTH: Final = 4
HEIGHT: Final = 24
_HEIGHTS: Final[dict[Condition | None, int]] = {"ok": 14, "degraded": 19, "down": 24, None: 3}
"""Worse is taller, for readers who can't tell the colours apart."""

_STRIP: Final = Markup(
    '<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
    'aria-label="{}">{}</svg>'
)
_CELL: Final = Markup(
    '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
)


class Cell(NamedTuple):
    """One hour or day; `condition` is None if nothing was recorded."""

    condition: Condition | None
    text: str


def strip(cells: Sequence[Cell], label: str) -> Markup:
    """Draw cells from left to right; `label` describes them for screen readers."""
    drawn = Markup().join(_drawn(at, cell) for at, cell in enumerate(cells))
    return _STRIP.format(len(cells) * STEP - (STEP - WIDTH), HEIGHT, label, drawn)


def _drawn(at: int, cell: Cell) -> Markup:
    height = _HEIGHTS[cell.condition]
    name = cell.condition or "none"
    return _CELL.format(name, at * STEP, HEIGHT - height, WIDTH, height, cell.text)


Tone = Literal["high-far", "high", "strong", "more", "middle", "less", "low", "low-far", "none"]
"""The CSS class of a bar. High and low are sides, such as longs and shorts; `strong`, `more` and
`less` are of what has no sides, such as volatility."""

NOT_RECORDED = "not recorded"
NARROWEST_HOURS = 2.0
"""Narrower bars would be invisible."""

EVERYTHING_PCT = 100

SCALES: Mapping[str, Mapping[str, Tone]] = {
    "btc-funding-regime": {
        "long-crowded": "high-far",
        "long-leaning": "high",
        "neutral": "middle",
        "short-leaning": "low",
        "short-crowded": "low-far",
    },
    "funding-breadth": {"longs-pay": "high", "balanced": "middle", "shorts-pay": "low"},
    "liquidation-pressure": {
        "extreme": "strong",
        "elevated": "more",
        "normal": "middle",
        "quiet": "less",
    },
    "btc-long-accounts": {"long-extreme": "high", "typical": "middle", "short-extreme": "low"},
    "btc-open-interest-trend": {"rising": "high", "flat": "middle", "falling": "low"},
    "btc-realised-volatility": {"turbulent": "strong", "normal": "middle", "calm": "less"},
    "cross-venue-funding": {
        "wide": "strong",
        "typical": "middle",
        "narrow": "less",
        "equal": "less",
    },
    "btc-etf-flow": {"accumulation": "high", "mixed": "middle", "distribution": "low"},
    "us-rates": {
        "bear-steepening": "high",
        "bear": "high",
        "bear-flattening": "high",
        "steepening": "middle",
        "consolidation": "middle",
        "flattening": "middle",
        "bull-steepening": "low",
        "bull": "low",
        "bull-flattening": "low",
    },
}
"""The labels of each signal, from high to low."""


class Span(NamedTuple):
    """A period with one label."""

    label: str
    start: int
    end: int


class Lane(NamedTuple):
    """One label: how much of the time it applied, and its drawing."""

    label: str
    tone: Tone
    share_pct: float
    drawing: Markup

    @property
    def time(self) -> str:
        """The share of the time as text."""
        return _percent(self.share_pct)


def lanes(key: str, spans: Sequence[Span], start: int, end: int) -> list[Lane]:
    """A lane for each label that occurred between `start` and `end`, from high to low.

    Labels that are not on the scale, `unknown` and unrecorded time come last.
    """
    everything = [*spans, *_gaps(spans, start, end)]
    scale = SCALES.get(key, {})
    labels = dict.fromkeys(span.label for span in everything)
    order = [*scale, *(each for each in labels if each not in {*scale, *_LAST}), *_LAST]
    return [
        _lane(label, scale.get(label, _LAST.get(label, "middle")), everything, start, end)
        for label in order
        if label in labels
    ]


def _gaps(spans: Sequence[Span], start: int, end: int) -> Iterable[Span]:
    """The time before the first span and after the last; there are no gaps in between."""
    first, last = (spans[0].start, spans[-1].end) if spans else (end, end)
    for gap in (Span(NOT_RECORDED, start, first), Span(NOT_RECORDED, last, end)):
        if gap.start < gap.end:
            yield gap


def _lane(label: str, tone: Tone, spans: Iterable[Span], start: int, end: int) -> Lane:
    own = [span for span in spans if span.label == label]
    share = 100 * sum(span.end - span.start for span in own) / (end - start)
    width = (end - start) / HOUR
    words = f"{label}: {_percent(share)} of the time"
    drawing = Markup(
        '<svg class="lane" viewBox="0 0 {} 1" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><path class="{}" d="{}"/></svg>'
    ).format(number(width), words, tone, "".join(_bars(own, start, width)))
    return Lane(label, tone, share, drawing)


def _percent(share_pct: float) -> str:
    """A share in percent; only nothing is 0 %, and only everything is 100 %."""
    shown = f"{share_pct:.0f} %"
    if shown == "0 %" and share_pct > 0:
        return "< 1 %"
    if shown == "100 %" and share_pct < EVERYTHING_PCT:
        return "> 99 %"
    return shown


def _bars(spans: Iterable[Span], start: int, width: float) -> Iterable[str]:
    """Bars in hours from the start; bars that touch are merged."""
    left: float | None = None
    right = 0.0
    for span in spans:
        begins = (span.start - start) / HOUR
        ends = max((span.end - start) / HOUR, begins + NARROWEST_HOURS)
        if left is not None and begins <= right:
            right = max(right, ends)
            continue
        if left is not None:
            yield _bar(left, right)
        left, right = begins, ends
    if left is not None:
        yield _bar(left, min(right, width))


def _bar(left: float, right: float) -> str:
    return f"M{number(left)} 0H{number(right)}V1H{number(left)}z"


_LAST: Mapping[str, Tone] = {UNKNOWN: "none", NOT_RECORDED: "none"}

"""Strips: how something was, cell by cell, as a small drawing (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from barograph.kit.timestamps import HOUR
from barograph.signals.records import UNKNOWN
from barograph.status.rules import Condition

STEP: Final = 5
WIDTH: Final = 4
HEIGHT: Final = 24
_HEIGHTS: Final[dict[Condition | None, int]] = {"ok": 14, "degraded": 19, "down": 24, None: 3}
"""What is worse stands out, also for who cannot tell colours apart."""

_STRIP: Final = Markup(
    '<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
    'aria-label="{}">{}</svg>'
)
_CELL: Final = Markup(
    '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
)


class Cell(NamedTuple):
    """One hour or day; `condition` is None where nothing is known of it."""

    condition: Condition | None
    text: str


def strip(cells: Sequence[Cell], label: str) -> Markup:
    """Draw cells from left to right; `label` says the same to whoever cannot see them."""
    drawn = Markup().join(_drawn(number, cell) for number, cell in enumerate(cells))
    return _STRIP.format(len(cells) * STEP - (STEP - WIDTH), HEIGHT, label, drawn)


def _drawn(number: int, cell: Cell) -> Markup:
    height = _HEIGHTS[cell.condition]
    name = cell.condition or "none"
    return _CELL.format(name, number * STEP, HEIGHT - height, WIDTH, height, cell.text)


Tone = Literal["high-far", "high", "usual", "low", "low-far", "none"]
"""The class by which a bar is coloured; where it lies says the same without colour."""

NOT_RECORDED = "not recorded"
NARROWEST = 2.0
"""In hours: what lasted less would not be seen."""

EVERYTHING_PCT = 100

SCALES: Mapping[str, Mapping[str, Tone]] = {
    "btc-funding-regime": {
        "long-crowded": "high-far",
        "long-leaning": "high",
        "neutral": "usual",
        "short-leaning": "low",
        "short-crowded": "low-far",
    },
    "funding-breadth": {"longs-pay": "high", "balanced": "usual", "shorts-pay": "low"},
    "liquidation-pressure": {
        "extreme": "high-far",
        "elevated": "high",
        "normal": "usual",
        "quiet": "low",
    },
    "btc-long-accounts": {"long-extreme": "high", "typical": "usual", "short-extreme": "low"},
    "btc-open-interest-trend": {"rising": "high", "flat": "usual", "falling": "low"},
    "btc-realised-volatility": {"turbulent": "high", "normal": "usual", "calm": "low"},
    "btc-etf-flow": {"accumulation": "high", "mixed": "usual", "distribution": "low"},
    "us-rates": {
        "bear-steepening": "high",
        "bear": "high",
        "bear-flattening": "high",
        "steepening": "usual",
        "consolidation": "usual",
        "flattening": "usual",
        "bull-steepening": "low",
        "bull": "low",
        "bull-flattening": "low",
    },
}
"""The labels of each signal from high to low."""


class Span(NamedTuple):
    """A label while it lasted."""

    label: str
    start: int
    end: int


class Lane(NamedTuple):
    """One label: how much of the time it was in force, and its drawing."""

    label: str
    tone: Tone
    share_pct: float
    drawing: Markup

    @property
    def time(self) -> str:
        """How much of the time, in words."""
        return _time(self.share_pct)


def lanes(key: str, spans: Sequence[Span], start: int, end: int) -> list[Lane]:
    """A lane for each label that occurred between `start` and `end`, from high to low.

    Below come labels that the scale does not know, `unknown`, and what is not recorded.
    """
    everything = [*spans, *_gaps(spans, start, end)]
    scale = SCALES.get(key, {})
    found = dict.fromkeys(span.label for span in everything)
    order = [*scale, *(each for each in found if each not in {*scale, *_LAST}), *_LAST]
    return [
        _lane(label, scale.get(label, _LAST.get(label, "usual")), everything, start, end)
        for label in order
        if label in found
    ]


def _gaps(spans: Sequence[Span], start: int, end: int) -> Iterable[Span]:
    """What no span covers, before the first and after the last; in between nothing is left open."""
    first, last = (spans[0].start, spans[-1].end) if spans else (end, end)
    for gap in (Span(NOT_RECORDED, start, first), Span(NOT_RECORDED, last, end)):
        if gap.start < gap.end:
            yield gap


def _lane(label: str, tone: Tone, spans: Iterable[Span], start: int, end: int) -> Lane:
    own = [span for span in spans if span.label == label]
    share = 100 * sum(span.end - span.start for span in own) / (end - start)
    width = (end - start) / HOUR
    words = f"{label}: {_time(share)} of the time"
    drawing = Markup(
        '<svg class="lane" viewBox="0 0 {} 1" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><path class="{}" d="{}"/></svg>'
    ).format(_number(width), words, tone, "".join(_bars(own, start, width)))
    return Lane(label, tone, share, drawing)


def _time(share_pct: float) -> str:
    """A share of the time; only nothing is 0 %, and only everything 100 %."""
    shown = f"{share_pct:.0f} %"
    if shown == "0 %" and share_pct > 0:
        return "< 1 %"
    if shown == "100 %" and share_pct < EVERYTHING_PCT:
        return "> 99 %"
    return shown


def _bars(spans: Iterable[Span], start: int, width: float) -> Iterable[str]:
    """Bars in hours from the start; those that touch are one."""
    left: float | None = None
    right = 0.0
    for span in spans:
        begins = (span.start - start) / HOUR
        ends = max((span.end - start) / HOUR, begins + NARROWEST)
        if left is not None and begins <= right:
            right = max(right, ends)
            continue
        if left is not None:
            yield _bar(left, min(right, width))
        left, right = begins, ends
    if left is not None:
        yield _bar(left, min(right, width))


def _bar(left: float, right: float) -> str:
    return f"M{_number(left)} 0H{_number(right)}V1H{_number(left)}z"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


_LAST: Mapping[str, Tone] = {UNKNOWN: "none", NOT_RECORDED: "none"}

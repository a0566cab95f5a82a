"""The axes of a chart: round marks, bands, and marks for events and for one moment (pure)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.samples import STEPS
from barograph.site.charts.svg import Box, number, text_of
from barograph.site.templating import date_and_time


class Band(NamedTuple):
    """A named range of values; None is an open end."""

    label: str
    low: float | None
    high: float | None

    def clipped(self, low: float, high: float) -> tuple[float, float]:
        """The part of the band within a scale; both ends are equal if there is none."""
        lower = low if self.low is None else min(high, max(low, self.low))
        upper = high if self.high is None else min(high, max(low, self.high))
        return lower, upper


def edges_around(bands: Sequence[Band], values: Sequence[float]) -> Iterable[float]:
    """The edges of every band that the values touch."""
    low, high = min(values), max(values)
    for band in bands:
        is_below = band.high is not None and band.high < low
        is_above = band.low is not None and band.low > high
        if not is_below and not is_above:
            yield from (edge for edge in (band.low, band.high) if edge is not None)


STEPS_OF_TEN = (1.0, 2.0, 2.5, 5.0, 10.0)
LARGEST = 1e30
SMALLEST = 1e-15
"""Larger values are drawn as `LARGEST`, smaller ones as zero."""

FLAT = 1e-6
"""Values with a smaller relative difference are drawn as equal."""

LETTERS = (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3))
WITH_LETTER = 1e4
MOST_STEPS = 4
MOST_TIMES = 5
MOST_CHARACTERS = 13
MOST_DECIMALS = 2
"""With more decimals after a letter, a smaller letter or the whole number is easier to read."""

TIME_STEPS = (
    5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
)  # fmt: skip


class Scale(NamedTuple):
    """A range of values that begins and ends at marks."""

    low: float
    high: float
    marks: Sequence[float]
    labels: Sequence[str]

    def share(self, value: float) -> float:
        """The position of a value: 0 at the lower end, 1 at the upper, clamped."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def drawable(value: float | None) -> float | None:
    """The value in the drawable range, or None."""
    if value is None or not isfinite(value):
        return None
    if abs(value) < SMALLEST:
        return 0.0
    return min(LARGEST, max(-LARGEST, value))


def value_scale(values: Iterable[float]) -> Scale:
    """A scale of round marks around one or more drawable values."""
    known = list(values)
    low, high = _apart(min(known), max(known))
    step = round_step((high - low) / MOST_STEPS)
    # The tolerance keeps an end that is a mark except for rounding errors.
    first, last = floor(low / step + FLAT), ceil(high / step - FLAT)
    marks = [index * step for index in range(first, last + 1)]
    return Scale(marks[0], marks[-1], marks, mark_labels(marks, step))


def round_step(least: float) -> float:
    """The smallest round number that is not less: 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in STEPS_OF_TEN if step * power >= least * (1 - FLAT))


def mark_labels(marks: Sequence[float], step: float) -> list[str]:
    """Short labels in one format: `67.5k`, `0.015`, `1.25B`."""
    largest = max(abs(mark) for mark in marks)
    fitting = (
        each
        for each in LETTERS
        if largest >= max(WITH_LETTER, each[1]) and _decimals(step / each[1]) <= MOST_DECIMALS
    )
    letter, unit = next(fitting, ("", 1.0))
    decimals = _decimals(step / unit)
    labels = [f"{mark / unit:,.{decimals}f}{letter}" if mark else "0" for mark in marks]
    if max(len(label) for label in labels) <= MOST_CHARACTERS:
        return labels
    digits = max(0, floor(log10(largest)) - floor(log10(step)) + 1)
    powers = [f"{mark:.{digits}e}" for mark in marks]
    return min(labels, powers, key=lambda each: max(map(len, each)))


def time_marks(start: int, end: int) -> list[tuple[int, str]]:
    """Round instants between two others, with labels in UTC."""
    step = next(
        (each for each in TIME_STEPS if (end - start) // each < MOST_TIMES),
        (end - start) // MOST_TIMES or 1,
    )
    first = -(-start // step) * step
    return [(at, _time_label(at, step)) for at in range(first, end + 1, step)]


def _apart(low: float, high: float) -> tuple[float, float]:
    """Both ends, moved apart if they are nearly equal."""
    size = max(abs(low), abs(high))
    if high - low > size * FLAT:
        return low, high
    room = size / 100 or 1.0
    return low - room, high + room


def _decimals(step: float) -> int:
    """How many decimals distinguish multiples of a step."""
    power = floor(log10(step) + FLAT)
    is_whole = abs(step / 10.0**power - round(step / 10.0**power)) < FLAT
    return max(0, -power + (0 if is_whole else 1))


def _time_label(at: int, step: int) -> str:
    when = datetime.fromtimestamp(at // SECOND, UTC)
    if step < DAY and at % DAY:
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b}"


REGIME_OF = "BTC"
"""The coin whose charts show the regime and mark its changes."""

MARK = 7
"""The width of a mark. Events that are closer share one."""

TEXTS_SHOWN = 3
"""How many events the title of a mark names."""


class ChartEvent(NamedTuple):
    """Something that happened at an instant, and the page about it."""

    at: int
    text: str
    path: str = ""


class Timeline(NamedTuple):
    """The time axis of a chart."""

    start: int
    end: int
    events: tuple[ChartEvent, ...] = ()
    """Oldest first, all of them on the axis."""

    moment: int | None = None
    """The instant that the chart is about, if there is one."""


def timeline(
    days: int, now: int, events: Sequence[ChartEvent] = (), moment: int | None = None
) -> Timeline:
    """The axis of the last days, the same for every chart of that minute.

    It ends with the current step, because the newest samples and columns are somewhere within it.
    """
    step = STEPS[days]
    newest = now // step * step
    start, end = newest - days * DAY, newest + step
    shown = tuple(sorted(event for event in events if start <= event.at <= end))
    is_shown = moment is not None and start <= moment <= end
    return Timeline(start, end, shown, moment if is_shown else None)


def draw_events(shown: Timeline, box: Box, x: Callable[[int], float]) -> str:
    """The moment as a line through the plot, and the events as triangles above it."""
    line = ""
    if shown.moment is not None:
        steps = f"M{number(x(shown.moment))} {number(box.top)}V{number(box.bottom)}"
        line = _titled("moment", steps, date_and_time(shown.moment))
    return line + "".join(_mark(group, box, x) for group in _groups(shown.events, x))


def event_words(shown: Timeline) -> str:
    """What is marked, for screen readers; empty if nothing is."""
    count = len(shown.events)
    events = f" {count} event{'' if count == 1 else 's'} marked." if count else ""
    line = "" if shown.moment is None else f" A line marks {date_and_time(shown.moment)}."
    return events + line


def _groups(
    events: Sequence[ChartEvent], x: Callable[[int], float]
) -> Iterator[Sequence[ChartEvent]]:
    group: list[ChartEvent] = []
    for event in events:
        if group and x(event.at) - x(group[0].at) >= MARK:
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _mark(group: Sequence[ChartEvent], box: Box, x: Callable[[int], float]) -> str:
    texts = [f"{date_and_time(each.at)}: {each.text}" for each in group[-TEXTS_SHOWN:]]
    more = len(group) - TEXTS_SHOWN
    if more > 0:
        texts.insert(0, f"{more} earlier event{'' if more == 1 else 's'}")
    left = x(group[0].at) - MARK / 2
    return _titled("event", f"M{number(left)} {number(box.top - 7)}h7l-3.5 6z", " · ".join(texts))


def _titled(kind: str, steps: str, title: str) -> str:
    return f'<path class="{kind}" d="{steps}"><title>{text_of(title)}</title></path>'

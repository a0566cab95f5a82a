"""Scales: which values and instants are marked, and how they are written (pure)."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND


class Band(NamedTuple):
    """A named part of a scale; an end that is None has no bound."""

    label: str
    low: float | None
    high: float | None

    def clipped(self, low: float, high: float) -> tuple[float, float]:
        """The part of the band within a scale; where there is none, both ends are one."""
        lower = low if self.low is None else min(high, max(low, self.low))
        upper = high if self.high is None else min(high, max(low, self.high))
        return lower, upper


def edges_around(bands: Sequence[Band], values: Sequence[float]) -> Iterable[float]:
    """The edges of every band that one of the values may lie in: where it would be left."""
    low, high = min(values), max(values)
    for band in bands:
        is_below = band.high is not None and band.high < low
        is_above = band.low is not None and band.low > high
        if not is_below and not is_above:
            yield from (edge for edge in (band.low, band.high) if edge is not None)


STEPS_OF_TEN = (1.0, 2.0, 2.5, 5.0, 10.0)
LARGEST = 1e30
SMALLEST = 1e-15
"""What is larger is drawn as this large; what is smaller, as zero."""

FLAT = 1e-6
"""Values that differ by less, as a share of their size, are drawn as equal."""

LETTERS = (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3))
WITH_LETTER = 1e4
MOST_CHARACTERS = 10
MOST_DECIMALS = 2
"""More of them after a letter are harder to read than the whole number."""

TIME_STEPS = (
    5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
)  # fmt: skip


class Scale(NamedTuple):
    """A span of values that begins and ends at marks."""

    low: float
    high: float
    marks: Sequence[float]
    labels: Sequence[str]

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the lower end, 1 at the upper, never beyond."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def drawable(value: float | None) -> float | None:
    """A value that can be drawn, or None."""
    if value is None or not isfinite(value):
        return None
    if abs(value) < SMALLEST:
        return 0.0
    return min(LARGEST, max(-LARGEST, value))


def value_scale(values: Iterable[float], most_steps: int = 4) -> Scale:
    """A scale of round marks around drawable values, of which there is at least one."""
    known = list(values)
    low, high = _apart(min(known), max(known))
    step = round_step((high - low) / most_steps)
    # A hair of tolerance, so that an end that is a mark but for rounding stays the end.
    first, last = floor(low / step + FLAT), ceil(high / step - FLAT)
    marks = [index * step for index in range(first, last + 1)]
    return Scale(marks[0], marks[-1], marks, mark_labels(marks, step))


def round_step(least: float) -> float:
    """The smallest round number that is not less: 1, 2, 2.5 or 5 of some power of ten."""
    power = 10.0 ** floor(log10(least))
    return next(each * power for each in STEPS_OF_TEN if each * power >= least * (1 - FLAT))


def mark_labels(marks: Sequence[float], step: float) -> list[str]:
    """Write marks shortly, all in the same way: `67.5k`, `0.015`, `1.25B`."""
    largest = max(abs(mark) for mark in marks)
    letter, unit = next(((letter, unit) for letter, unit in LETTERS if largest >= unit), ("", 1.0))
    if largest < WITH_LETTER or _decimals(step / unit) > MOST_DECIMALS:
        letter, unit = "", 1.0
    decimals = _decimals(step / unit)
    labels = [f"{mark / unit:,.{decimals}f}{letter}" if mark else "0" for mark in marks]
    if max(len(label) for label in labels) <= MOST_CHARACTERS:
        return labels
    digits = max(0, floor(log10(largest)) - floor(log10(step)) + 1)
    return [f"{mark:.{digits}e}" for mark in marks]


def time_marks(start: int, end: int, most: int = 5) -> list[tuple[int, str]]:
    """Instants worth marking between two others, and how they are written, in UTC."""
    step = next(
        (each for each in TIME_STEPS if (end - start) // each < most), (end - start) // most or 1
    )
    first = -(-start // step) * step
    return [(at, _time_label(at, step)) for at in range(first, end + 1, step)]


def _apart(low: float, high: float) -> tuple[float, float]:
    """Both ends, moved away from each other where they are as good as equal."""
    size = max(abs(low), abs(high))
    if high - low > size * FLAT:
        return low, high
    room = size / 100 or 1.0
    return low - room, high + room


def _decimals(step: float) -> int:
    """How many decimals tell multiples of a step apart."""
    power = floor(log10(step) + FLAT)
    is_whole = abs(step / 10.0**power - round(step / 10.0**power)) < FLAT
    return max(0, -power + (0 if is_whole else 1))


def _time_label(at: int, step: int) -> str:
    when = datetime.fromtimestamp(at // SECOND, UTC)
    if step < DAY and at % DAY:
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b}"

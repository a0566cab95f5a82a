"""One measure over time as a line, with gaps where nothing was recorded (pure)."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from math import floor
from typing import NamedTuple

from markupsafe import Markup

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.samples import Measure, Point, Series
from barograph.site.charts.axes import (
    Band,
    Scale,
    Timeline,
    draw_events,
    drawable,
    edges_around,
    event_words,
    time_marks,
    value_scale,
)
from barograph.site.charts.svg import (
    NOTHING,
    Box,
    Digits,
    Frame,
    Place,
    Show,
    block,
    drawing,
    number,
    path,
    pointing,
    text,
    trace,
    widest,
)
from barograph.site.templating import date_and_time

SIZE = (320, 174)
PLOT = Box(48, 22, 313, 155)
"""The area of the values: the same in every chart, so that instants are below each other."""

LABEL_SPACE = 5
NAME_HEIGHT = 13
THINNEST_NAMED = 9
"""The least height of a band that has its name; tails of letters may reach out of it."""

NAME_STEP = 22
"""How far apart the places are where a name may begin."""

PRICE_DECIMALS = 10
MOST_GAPS = 24
SEEN_GAP = 3
LEGEND = "exchange history"
MISSING = "partly last known"
DASHED = {LEGEND: f"from {LEGEND}", MISSING: "with last known values of missing venues"}
LEGEND_DASH = 18
BESIDE_LEGEND = LEGEND_DASH + 34
"""The room for its dash and for "UTC"."""


class Axes(NamedTuple):
    """Maps instants and values to positions in a drawing."""

    box: Box
    scale: Scale
    start: int
    end: int

    @property
    def ends(self) -> tuple[int, int, float, float]:
        """The first and last instant, the lowest and highest value."""
        return self.start, self.end, self.scale.low, self.scale.high

    def x(self, at: int) -> float:
        """The position of an instant."""
        if self.end == self.start:
            return self.box.right
        share = (at - self.start) / (self.end - self.start)
        return self.box.left + min(1.0, max(0.0, share)) * self.box.width

    def y(self, value: float) -> float:
        """The position of a value."""
        return self.box.y(self.scale.share(value))


def line_chart(
    series: Series,
    *,
    prefix: str,
    name: str,
    unit: str,
    show: Show,
    bands: Sequence[Band] = (),
    tinted: bool = True,
    signed: bool = False,
    data_url: str = "",
    time: Timeline | None = None,
    legend: str = LEGEND,
    venues: Sequence[str] = (),
) -> Markup:
    """Draw one measure of one contract; a `signed` one always shows its sign.

    What is back-filled is dashed, and `legend` says what that means. With `venues`, it is the total
    of these. Bands that are not `tinted` are drawn as their edges only. Without a time
    axis it goes from the first sample to the last.
    """
    points = drawn(series.points)
    values = [point.value for point in points if point.value is not None]
    if not values:
        return empty_chart(prefix, name, f"{series.contract}, {unit}: {NOTHING}.")
    scale = value_scale([*values, *edges_around(bands, values)])
    time = time or Timeline(points[0].at, points[-1].at)
    axes = Axes(PLOT, scale, time.start, time.end)
    description = f"{series.contract}, {unit}. {described(series, show, legend)}{event_words(time)}"
    digits = _digits(series.measure, show(values[-1]), signed=signed)
    newest = max(point.at for point in points if point.value is not None)
    pointed = pointing(
        PLOT, axes.ends, unit, data_url, newest=newest, step=series.interval, digits=digits
    )
    if venues:
        pointed += f' data-venues="{" ".join(venues)}"'
    frame = Frame(prefix, name, description, SIZE, pointed)
    return drawing(
        frame,
        _draw_bands(axes, bands) if tinted else "",
        path("edge", "".join(_edges(axes, bands))),
        draw_gaps(axes, points),
        draw_axes(axes, unit),
        path("line", trace(_places(axes, _measured(points)))),
        *_draw_backfilled(axes, points, legend),
        _last_dot(axes, points),
        draw_events(time, PLOT, axes.x),
        *_band_names(axes, bands, points),
    )


def drawn(points: Iterable[Point]) -> list[Point]:
    """The points of a line: a disputed value leaves a gap, as an error may be any size."""
    return [
        point._replace(value=None if point.is_disputed else drawable(point.value))
        for point in points
    ]


def empty_chart(prefix: str, name: str, description: str, words: str = NOTHING) -> Markup:
    """A chart without data, with `words` in its place."""
    return drawing(
        Frame(prefix, name, description, SIZE),
        path("gap", block(PLOT.left, PLOT.top, PLOT.width, PLOT.height)),
        text((PLOT.left + PLOT.right) / 2, PLOT.y(0.5) + 4, words, "axis", "middle"),
        kind="empty",
    )


def described(series: Series, show: Show, legend: str = LEGEND) -> str:
    """Describe the line in words, for screen readers."""
    known = [point for point in drawn(series.points) if point.value is not None]
    values = [point.value for point in known if point.value is not None]
    first, last = series.points[0].at, series.points[-1].at
    disputed = sum(point.is_disputed for point in series.points)
    missing = len(series.points) - len(known) - disputed
    backfilled = sum(point.is_backfilled for point in known)
    origin = f", {backfilled} {DASHED[legend]}" if backfilled else ""
    origin += f", {disputed} disputed and left out" if disputed else ""
    return (
        f"From {date_and_time(first)} to {date_and_time(last)}, one sample every "
        f"{every(series.interval)}. Lowest {show(min(values))}, highest {show(max(values))}, "
        f"last {show(values[-1])} at {date_and_time(known[-1].at)}. {len(series.points)} samples, "
        f"{missing or 'none'} missing{origin}."
    )


def every(interval: int) -> str:
    """An interval after "every": `5 minutes`, `hour`, `4 hours`."""
    unit, word = next(
        (unit, word)
        for unit, word in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "millisecond"))
        if interval % unit == 0
    )
    count = interval // unit
    return word if count == 1 else f"{count} {word}s"


def draw_axes(axes: Axes, unit: str) -> str:
    """Grid lines at round values and instants, with their labels."""
    box, scale = axes.box, axes.scale
    heights = [axes.y(mark) for mark in scale.marks]
    across = "".join(f"M{number(box.left)} {number(y)}H{number(box.right)}" for y in heights)
    marks = [(axes.x(at), label) for at, label in time_marks(axes.start, axes.end)]
    down = "".join(f"M{number(x)} {number(box.top)}V{number(box.bottom)}" for x, _ in marks)
    room = box.left - LABEL_SPACE
    narrowed = min(1.0, floor(10 * room / widest(scale.labels)) / 10)
    labels = [
        text(room, y + 3.8, label, "axis", "end", narrowed=narrowed)
        for y, label in zip(heights, scale.labels, strict=True)
    ]
    instants = [
        text(x, box.bottom + 15, label, "axis", _anchor(box, x, label)) for x, label in marks
    ]
    return (
        path("grid", across + down)
        + "".join(labels)
        + "".join(instants)
        + text(0, 10, unit, "unit")
        + text(box.right, 10, "UTC", "unit", "end")
    )


def _room(axes: Axes, band: Band) -> Box:
    """The visible part of a band."""
    low, high = band.clipped(axes.scale.low, axes.scale.high)
    return Box(axes.box.left, axes.y(high), axes.box.right, axes.y(low))


def _draw_bands(axes: Axes, bands: Sequence[Band]) -> str:
    rooms = [(band.label, _room(axes, band)) for band in bands]
    return "".join(
        path(f"band band-{label}", block(room.left, room.top, room.width, room.height))
        for label, room in rooms
        if room.height > 0
    )


def _edges(axes: Axes, bands: Sequence[Band]) -> Iterator[str]:
    for band in bands:
        if band.high is not None and axes.scale.low < band.high < axes.scale.high:
            yield f"M{number(axes.box.left)} {number(axes.y(band.high))}H{number(axes.box.right)}"


def draw_gaps(axes: Axes, points: Sequence[Point]) -> str:
    """The longest gaps, as one shape."""
    box = axes.box
    spans = ((axes.x(end) - axes.x(start), axes.x(start)) for start, end in _gaps(points))
    seen = (each for each in nlargest(MOST_GAPS, spans) if each[0] >= SEEN_GAP)
    return path("gap", "".join(block(left, box.top, width, box.height) for width, left in seen))


def _digits(measure: Measure, shown: str, *, signed: bool) -> Digits | None:
    """The decimals of a formatted number; only prices may have more. None for abbreviated ones."""
    if measure == "open-interest":
        return None
    match = re.search(r"\.(\d+)", shown)
    least = 0 if match is None else len(match[1])
    return Digits(least, max(least, PRICE_DECIMALS) if measure == "price" else least, signed)


def _places(axes: Axes, points: Iterable[Point]) -> Iterator[Place | None]:
    for at, value, *_ in points:
        yield None if value is None else (axes.x(at), axes.y(value))


def _measured(points: Iterable[Point]) -> Iterator[Point]:
    for point in points:
        yield point._replace(value=None) if point.is_backfilled else point


def _draw_backfilled(axes: Axes, points: Sequence[Point], legend: str) -> Iterator[str]:
    """Draw the values from the exchange's history dashed, up to the measured ones; add a legend."""
    if not any(point.is_backfilled and point.value is not None for point in points):
        return
    edge = Point(0, None)
    dashed = (
        each
        if before.is_backfilled or each.is_backfilled or after.is_backfilled
        else each._replace(value=None)
        for before, each, after in zip([edge, *points], points, [*points[1:], edge], strict=False)
    )
    left = axes.box.right - widest([legend]) - BESIDE_LEGEND
    dash = f"M{number(left)} 6.5h{LEGEND_DASH}"
    yield path("line dashed", dash + trace(_places(axes, dashed)))
    yield text(left + LEGEND_DASH + 4, 10, legend, "legend")


def _last_dot(axes: Axes, points: Sequence[Point]) -> str:
    at, value, *_ = next(point for point in reversed(points) if point.value is not None)
    assert value is not None
    return f'<circle class="last" cx="{number(axes.x(at))}" cy="{number(axes.y(value))}" r="2.5"/>'


def _band_names(axes: Axes, bands: Sequence[Band], points: Sequence[Point]) -> Iterator[str]:
    """The names of bands, each in a free spot of its band, if there is one."""
    places = [place for place in _places(axes, points) if place is not None]
    named: list[Box] = []
    for band in bands:
        spots = _spots(_room(axes, band), widest([band.label]) + 6)
        spot = next((each for each in spots if _is_free(each, places, named)), None)
        if spot is not None:
            named.append(spot)
            yield text(spot.right - 4, spot.bottom - 3, band.label, "band-name", "end")


def _is_free(spot: Box, places: Sequence[Place], named: Sequence[Box]) -> bool:
    """Whether the line through these places, and other names, stay out of a spot."""
    first = max(0, bisect_left(places, (spot.left,)) - 1)
    near = places[first : bisect_left(places, (spot.right,)) + 1]
    others = ((each[:2], each[2:]) for each in named)
    return not any(spot.meets(*each) for each in (*pairwise([*near, near[-1]]), *others))


def _spots(room: Box, width: float) -> Iterator[Box]:
    """Where a name may be, from right to left."""
    lefts = range(int(room.right - width), round(room.left), -NAME_STEP)
    for left in lefts if room.height >= THINNEST_NAMED else ():
        for top in (room.top, max(room.top, room.bottom - NAME_HEIGHT)):
            yield Box(left, top, left + width, top + NAME_HEIGHT)


def _gaps(points: Sequence[Point]) -> Iterator[tuple[int, int]]:
    """The last point before each gap, and the first after it."""
    before = points[0].at
    in_gap = False
    for at, value, *_ in points:
        if value is None:
            in_gap = True
            continue
        if in_gap:
            yield before, at
        before, in_gap = at, False
    if in_gap:
        yield before, points[-1].at


def _anchor(box: Box, x: float, label: str) -> str:
    """The text anchor that keeps a label inside the drawing."""
    return "end" if x + widest([label]) / 2 > box.right + 8 else "middle"

"""The time axis of a chart: its ends, and marks for events and for one moment (pure)."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from barograph.kit.timestamps import DAY
from barograph.markets.samples import STEPS
from barograph.site.charts.svg import Box, number, text_of
from barograph.site.templating import date_and_time

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
    shown = tuple(sorted(each for each in events if start <= each.at <= end))
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

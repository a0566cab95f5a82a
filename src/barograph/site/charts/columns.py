"""Liquidations over time as stacked columns, longs below shorts (pure)."""

from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from barograph.kit.text import usd
from barograph.markets.samples import LiquidationColumn, LiquidationSeries
from barograph.site.charts.axes import Timeline, draw_events, drawable, event_words, value_scale
from barograph.site.charts.lines import PLOT, SIZE, Axes, draw_axes, empty_chart, every
from barograph.site.charts.svg import (
    NOTHING,
    Box,
    Frame,
    block,
    drawing,
    name_of,
    path,
    pointing,
    text,
)
from barograph.site.templating import date_and_time

UNIT = "USD"
JUST_BEGUN = "watching has just begun"
COLUMN_SHARE = 0.76
"""How much of its interval a column fills; the rest is space."""

Ends = Callable[[LiquidationColumn], tuple[float, float]]
"""The lower and upper end of what is drawn of a column; nothing if they are equal."""

NONE = (0.0, 0.0)


def column_chart(
    series: LiquidationSeries,
    *,
    prefix: str,
    name: str,
    data_url: str = "",
    time: Timeline | None = None,
) -> Markup:
    """Draw liquidations; intervals with too little coverage or in progress are hatched.

    A column whose sides are disputed has one colour for both.
    Without a time axis it goes from the start of the first column to the end of the last.
    """
    columns = [_drawable(column) for column in series.columns]
    totals = [_total(column) for column in columns if column.long_usd is not None]
    if not totals:
        words = NOTHING if series.watched_since is None else JUST_BEGUN
        return empty_chart(prefix, name, f"Liquidations, {UNIT}: {words}.", words)
    scale = value_scale([0.0, max(*totals, 1.0)])  # a scale around zero would go below it
    time = time or Timeline(columns[0].at, columns[-1].at + series.interval)
    axes = Axes(PLOT, scale, time.start, time.end)
    description = f"Liquidations, {UNIT}. {_described(series, columns)}{event_words(time)}"
    pointed = pointing(PLOT, axes.ends, UNIT, data_url, newest=series.as_of, step=series.interval)
    frame = Frame(prefix, name, description, SIZE, pointed)
    hatched = f' fill="url(#{name_of(prefix)}-h)"'

    sided = [column for column in columns if not column.is_disputed]

    def drawn(
        ends: Ends, share: float = COLUMN_SHARE, shown: Sequence[LiquidationColumn] = columns
    ) -> str:
        return "".join(_blocks(axes, shown, series.interval, ends, share))

    return drawing(
        frame,
        _hatching(prefix),
        path("gap", drawn(lambda each: (0.0, scale.high) if each.long_usd is None else NONE, 1.0)),
        draw_axes(axes, UNIT),
        path("long", drawn(lambda each: (0.0, each.long_usd or 0.0), shown=sided)),
        path("short", drawn(lambda each: (each.long_usd or 0.0, _total(each)), shown=sided)),
        path("disputed", drawn(lambda each: (0.0, _total(each)) if each.is_disputed else NONE)),
        path("partial", drawn(lambda each: (0.0, _total(each)) if each.partial else NONE), hatched),
        _legend(PLOT),
        draw_events(time, PLOT, axes.x),
    )


def _drawable(column: LiquidationColumn) -> LiquidationColumn:
    """A column with both numbers drawable, or with neither."""
    longs, shorts = drawable(column.long_usd), drawable(column.short_usd)
    if longs is None or shorts is None:
        return column._replace(long_usd=None, short_usd=None)
    return column._replace(long_usd=max(0.0, longs), short_usd=max(0.0, shorts))


def _total(column: LiquidationColumn) -> float:
    return (column.long_usd or 0.0) + (column.short_usd or 0.0)


def _described(series: LiquidationSeries, columns: Sequence[LiquidationColumn]) -> str:
    watched = [column for column in columns if column.long_usd is not None]
    highest = max(watched, key=_total)
    end = columns[-1].at + series.interval
    return (
        f"From {date_and_time(columns[0].at)} to {date_and_time(end)}, one column every "
        f"{every(series.interval)}, longs below shorts. Total: {sums_text(watched)}. "
        f"Highest column: {usd(_total(highest))} from {date_and_time(highest.at)}. "
        f"Last column: {usd(_total(watched[-1]))} from {date_and_time(watched[-1].at)}. "
        f"{_coverage(series, columns)}"
    )


def sums_text(columns: Sequence[LiquidationColumn]) -> str:
    """The sums of both sides, or of both together if some columns don't tell the sides."""
    longs, total = sum(each.long_usd or 0.0 for each in columns), sum(map(_total, columns))
    if disputed := sum(each.is_disputed for each in columns):
        return f"{usd(total)}, sides disputed in {disputed} of {len(columns)} columns"
    return f"longs {usd(longs)}, shorts {usd(sum(each.short_usd or 0.0 for each in columns))}"


def _coverage(series: LiquidationSeries, columns: Sequence[LiquidationColumn]) -> str:
    """How complete the columns are; the one in progress is not incomplete."""
    is_over = columns[-1].at + series.interval <= series.as_of
    over = columns if is_over else columns[:-1]
    partial = sum(column.partial and column.long_usd is not None for column in over)
    unwatched = sum(column.long_usd is None for column in over)
    gaps = [f"{partial} with too little coverage"] if partial else []
    gaps += [f"{unwatched} without coverage"] if unwatched else []
    covered = ", ".join(gaps) or "all with enough coverage"
    running = "" if is_over else "; the last is still in progress"
    return f"{len(columns)} columns, {covered}{running}."


def _hatching(prefix: str) -> str:
    return (
        f'<defs><pattern id="{name_of(prefix)}-h" width="3" height="3" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<path class="hatch" d="M0 0V3"/></pattern></defs>'
    )


def _blocks(
    axes: Axes, columns: Sequence[LiquidationColumn], interval: int, ends: Ends, share: float
) -> Iterator[str]:
    """One block per column, between two amounts; it fills a share of the interval."""
    for column in columns:
        low, high = ends(column)
        if high > low:
            left, right = axes.x(column.at), axes.x(column.at + interval)
            room = (right - left) * (1 - share) / 2
            top = axes.y(high)
            yield block(left + room, top, right - left - 2 * room, axes.y(low) - top)


def _legend(box: Box) -> str:
    middle = (box.left + box.right) / 2
    return (
        path("long", block(middle - 46, 2.5, 8, 8))
        + text(middle - 35, 10, "longs", "legend")
        + path("short", block(middle + 6, 2.5, 8, 8))
        + text(middle + 17, 10, "shorts", "legend")
    )

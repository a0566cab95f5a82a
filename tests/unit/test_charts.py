"""Whatever was recorded, a drawing is well-formed, stays on its paper and says what it shows."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import combinations, pairwise
from math import isfinite, sin
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.regime import LABELS, Label
from barograph.markets.samples import (
    CHARTED,
    DAYS,
    STEPS,
    LiquidationColumn,
    LiquidationSeries,
    Measure,
    Point,
    Series,
    column_starts,
    on_grid,
)
from barograph.site.chart_images import image, image_style
from barograph.site.charts.axes import Band, ChartEvent, drawable, time_marks, timeline, value_scale
from barograph.site.charts.columns import column_chart
from barograph.site.charts.lines import PLOT, described, line_chart
from barograph.site.charts.small import REGIME_BANDS, gauge
from barograph.site.charts.svg import CHARACTER, Box, trace
from barograph.site.series_charts import liquidations_chart, measure_chart
from barograph.site.static_files import packaged_files
from support.clock import START
from support.node import NODE

ELEMENTS = {"svg", "title", "desc", "defs", "pattern", "path", "circle", "text"}
HOSTILE = '"><script>alert(1)</script>\0\ufffe'
NUMBER = re.compile(r"[a-zA-Z]|-?(?:\d+(?:\.\d+)?|\.\d+)")

VALUES = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-0.2, 0.2),
    st.sampled_from([0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 67_000.5, 67_000.6, 1e-7]),
)
AMOUNTS = st.one_of(st.none(), st.floats(0, 1e12), st.floats(allow_nan=True, allow_infinity=True))


def series(values: Sequence[float | None], interval: int = HOUR) -> Series:
    first = START // HOUR * HOUR - (len(values) - 1) * interval
    points = tuple(Point(first + each * interval, value) for each, value in enumerate(values))
    return Series("BTCUSDT", "funding", 7, interval, START, points)


def backfilled(history: range, shown: Series | None = None) -> Series:
    """A line with these values from the exchange's own history."""
    line = series([0.01 * each for each in range(6)]) if shown is None else shown
    points = (each._replace(is_backfilled=at in history) for at, each in enumerate(line.points))
    return line._replace(points=tuple(points))


def liquidations(*pairs: tuple[float | None, float | None, float]) -> LiquidationSeries:
    first = START // DAY * DAY
    columns = tuple(
        LiquidationColumn(first + each * DAY, long_usd, short_usd, watched, watched < 95)
        for each, (long_usd, short_usd, watched) in enumerate(pairs)
    )
    return LiquidationSeries(60, DAY, first + len(pairs) * DAY, columns)


def draw(shown: Sequence[float | None] | Series, **fields: Any) -> str:
    line = shown if isinstance(shown, Series) else series(shown)
    usual = {"prefix": "c", "name": "Funding", "unit": "%", "show": str}
    return line_chart(line, **{**usual, **fields})


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [each for each in root.iter() if name in each.get("class", "").split()]


def texts(root: ET.Element, name: str) -> list[str]:
    return [each.text or "" for each in of_class(root, name)]


def places(steps: str) -> Iterator[tuple[float, float]]:
    """Every place that a path comes by."""
    tokens = NUMBER.findall(steps)
    assert "".join(tokens) == steps.replace(" ", "")
    x = y = 0.0
    command, at = "", 0
    while at < len(tokens):
        if tokens[at].isalpha():
            command, at = tokens[at], at + 1
        if command in "zZ":
            continue
        taken = 1 if command in "hHvV" else 2
        numbers = [float(each) for each in tokens[at : at + taken]]
        at += taken
        if command in "hH":
            x = numbers[0] + (x if command == "h" else 0)
        elif command in "vV":
            y = numbers[0] + (y if command == "v" else 0)
        else:
            x, y = (numbers[0] + x, numbers[1] + y) if command in "ml" else (numbers[0], numbers[1])
        yield x, y


def expect_sound(drawn: str) -> ET.Element:
    """A drawing of known elements, whose every coordinate lies on its paper."""
    root = parsed(drawn)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for each in root.iter():
        assert each.tag in ELEMENTS
        assert "style" not in each.attrib
        found = [(each.get("x") or each.get("cx"), each.get("y") or each.get("cy"))]
        spots = [(float(x), float(y)) for x, y in found if x is not None and y is not None]
        for x, y in [*spots, *places(each.get("d", ""))]:
            assert isfinite(x)
            assert -0.2 <= x <= width + 0.2
            assert -0.2 <= y <= height + 0.2
    assert "nan" not in drawn.lower()
    return root


@given(st.lists(VALUES, max_size=60), st.sampled_from([(), REGIME_BANDS]))
@example([None, 1.0, None, 2.0, None], ())
@example([0.01], REGIME_BANDS)
def test_any_values_give_a_sound_line(values: list[float | None], bands: Sequence[Band]) -> None:
    root = expect_sound(draw(values, bands=bands))
    known = [value for value in values if drawable(value) is not None]
    assert len(of_class(root, "line")) == (1 if known else 0)
    assert ("no data recorded" in texts(root, "axis")) == (not known)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, st.floats(0, 100)), max_size=30))
def test_any_amounts_give_a_sound_column_chart(
    pairs: list[tuple[float | None, float | None, float]],
) -> None:
    expect_sound(column_chart(liquidations(*pairs), prefix="l", name="Liquidations"))


@given(VALUES, st.sampled_from([*LABELS, "unknown"]))
def test_any_rate_gives_a_sound_gauge(rate_pct: float | None, label: Label) -> None:
    root = expect_sound(gauge(label, rate_pct, prefix="g"))
    assert len(of_class(root, "now")) == (0 if label == "unknown" else 1)
    assert len(of_class(root, "marker")) == (0 if drawable(rate_pct) is None else 1)


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20))
@example([67_000.1, 67_000.6])
@example([1.234e-6, 1.235e-6])
@example([9_999.0, 10_001.0])
@example([0.0])
def test_a_scale_holds_its_values_between_few_distinct_round_marks(values: list[float]) -> None:
    known = [value for value in map(drawable, values) if value is not None]
    scale = value_scale(known)
    room = (scale.high - scale.low) * 1e-5
    assert scale.low - room <= min(known)
    assert scale.high + room >= max(known)
    assert 2 <= len(scale.marks) <= 7
    assert all(low < high for low, high in pairwise(scale.marks))
    assert len(set(scale.labels)) == len(scale.marks)
    assert max(map(len, scale.labels)) <= 16


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([91_200, 93_900], ["91k", "92k", "93k", "94k"]),
        ([0.0, 1_900_000.0], ["0", "0.5M", "1.0M", "1.5M", "2.0M"]),
        ([-0.005, 0.015], ["-0.005", "0", "0.005", "0.010", "0.015"]),
        ([3.71e9, 3.92e9], ["3.7B", "3.8B", "3.9B", "4.0B"]),
        ([1.8160e9, 1.8162e9], ["1,816.00M", "1,816.05M", "1,816.10M", "1,816.15M", "1,816.20M"]),
        ([1.816e9, 1.816006e9], ["1,816,000k", "1,816,002k", "1,816,004k", "1,816,006k"]),
        (
            [4.088e-6, 4.0915e-6],
            ["0.000004088", "0.000004089", "0.000004090", "0.000004091", "0.000004092"],
        ),
        ([67_000.1, 67_000.4], ["67,000.1", "67,000.2", "67,000.3", "67,000.4"]),
        ([0.0, 0.0], ["-1.0", "-0.5", "0", "0.5", "1.0"]),
    ],
)
def test_marks_are_round_and_written_shortly(values: list[float], labels: list[str]) -> None:
    assert value_scale(values).labels == labels


def label_boxes(root: ET.Element) -> list[Box]:
    """Where each text is at most, on the paper."""
    boxes = []
    for each in root.iter("text"):
        moved = re.findall(r"[-.\d]+", each.get("transform", ""))
        x, y, narrowed, _ = map(float, moved or (each.attrib["x"], each.attrib["y"], 1, 1))
        width = len(each.text or "") * CHARACTER * narrowed
        left = x - {"middle": width / 2, "end": width}.get(each.get("text-anchor", ""), 0.0)
        boxes.append(Box(left, y - 8.5, left + width, y + 2))
    return boxes


def expect_labels_apart(drawn: str) -> None:
    root = parsed(drawn)
    boxes = label_boxes(root)
    for one, other in combinations(boxes, 2):
        beside = one.right <= other.left or other.right <= one.left
        assert beside or one.bottom <= other.top or other.bottom <= one.top
    assert all(each.left >= 0 for each in boxes)
    row = Box(PLOT.left, PLOT.top - 7, PLOT.right, PLOT.top)  # of the marks of events
    assert not any(
        box.left < row.right and row.left < box.right and box.top < row.bottom < box.bottom
        for box in boxes
    )


@given(st.lists(VALUES, min_size=1, max_size=40), st.integers(0, 60 * 24), st.sampled_from(DAYS))
def test_labels_of_a_chart_never_touch(values: list[float | None], minute: int, days: int) -> None:
    now = START + minute * MINUTE
    shown = backfilled(range(3), series(values))
    marks = [ChartEvent(now - each * HOUR, "brief") for each in range(days * 24)]
    time = timeline(days, now, marks)
    assert 2 <= len(time_marks(time.start, time.end)) <= 5
    for bands in ((), REGIME_BANDS):
        expect_labels_apart(draw(shown, unit="% of accounts", bands=bands, time=time))
    columns = liquidations(*((each, each, 100) for each in values))
    expect_labels_apart(column_chart(columns, prefix="c", name="Liquidations", time=time))


@given(st.sampled_from(DAYS), st.integers(0, 60 * 24))
def test_the_charts_of_a_page_have_one_plot_and_the_same_instants(days: int, minute: int) -> None:
    now = START + minute * MINUTE
    grid = on_grid({START: Point(START, 0.5)}, days, STEPS[days], now)
    lines = [
        measure_chart(Series("X", each, days, STEPS[days], now, grid), "X", "")
        for each in CHARTED
        if any(point.value for point in grid)
    ]
    starts = column_starts(days, now - MINUTE)
    columns = tuple(LiquidationColumn(at, 1.0, 1.0, 100.0, partial=False) for at in starts)
    liquidated = LiquidationSeries(days, starts.step, now - MINUTE, columns)
    drawn = [
        *(each.drawing for each in lines),
        liquidations_chart(liquidated, 95, "", timeline(days, now), "bybit").drawing,
    ]
    found = {
        (
            *(parsed(each).attrib[f"data-{name}"] for name in ("box", "time")),
            *(
                (mark.text, mark.attrib["x"])
                for mark in of_class(parsed(each), "axis")
                if mark.get("y") == "170"
            ),
        )
        for each in drawn
    }
    assert len(found) == 1
    start, end = map(int, parsed(drawn[-1]).attrib["data-time"].split())
    assert start <= grid[0].at
    assert max(grid[-1].at, now) <= end
    assert start <= starts[0]


def test_close_events_share_a_mark_and_each_is_named() -> None:
    far, close = START - 3 * DAY, [START - each * MINUTE for each in range(4)]
    outside = ChartEvent(START - 8 * DAY, "too old")
    events = [outside, *(ChartEvent(at, f"<{at}>") for at in [*close, far])]
    chart = measure_chart(series([1.0, 2.0])._replace(as_of=START), "BTC", "", events, at=far)
    root = expect_sound(chart.drawing)
    first, second = (each.findtext("title") or "" for each in of_class(root, "event"))
    assert f"<{far}>" in first
    assert second.startswith("1 earlier event · ")
    assert second.count("UTC: <") == 3
    assert [each.at for each in chart.events] == [far, *reversed(close)]
    line = list(places(of_class(root, "moment")[0].attrib["d"]))
    assert [y for _, y in line] == [PLOT.top, PLOT.bottom]
    assert (
        "The vertical line marks 2026-11-03 21:20 UTC, the end of the measured period."
        in chart.note
    )
    old = measure_chart(series([1.0, 2.0])._replace(as_of=START), "BTC", "", at=outside.at)
    assert not of_class(parsed(old.drawing), "moment")


def test_an_image_uses_only_colours_that_the_stylesheet_has_in_light_and_dark() -> None:
    css = (files("barograph.site") / "static" / "site.css").read_text()
    style = image_style(css)
    used = set(re.findall(r"var\((--[\w-]+)\)", style)) - {"--figures"}
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    colours = [set(re.findall(r"(--[\w-]+):#[0-9a-f]{6}", each)) for each in (light, dark)]
    assert colours == [used, used]
    assert {"--trace", "--long", "--short", "--raised"} <= used
    both = image_style(css + ":root {--raised: light-dark(#fefefe, #010101);}")
    assert re.findall(r"--raised:(\S{7})", both) == ["#fefefe", "#010101"]
    drawn = image(draw([1.0, 2.0]), "<BTC>", ("&" * 200, "", ""), style)
    root = ET.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_a_day_is_marked_by_its_hours_and_the_date_at_midnight() -> None:
    labels = [label for _, label in time_marks(START - DAY, START)]
    assert labels == ["6 Nov", "06:00", "12:00", "18:00"]


def test_the_line_is_open_where_nothing_was_recorded_and_its_dot_is_the_last_point() -> None:
    root = parsed(draw([1.0, 2.0, None, None, 3.0, 4.0, None, 5.0, None]))
    steps = of_class(root, "line")[0].attrib["d"]
    assert steps.count("M") + steps.count("m") == 3
    assert steps.endswith("h0")  # the last point stands alone
    dot, last = of_class(root, "last")[0], list(places(steps))[-1]
    assert (float(dot.attrib["cx"]), float(dot.attrib["cy"])) == pytest.approx(last, abs=0.05)
    assert of_class(root, "gap")
    whole = parsed(draw([1.0, 2.0, 3.0]))
    assert not of_class(whole, "gap")
    assert of_class(whole, "line")[0].attrib["d"].lower().count("m") == 1


def test_values_from_the_exchanges_history_are_dashed_up_to_the_first_measured_one() -> None:
    root = expect_sound(draw(backfilled(range(4))))
    measured, dashed = of_class(root, "line")
    legend, line = 2, 5
    assert len(list(places(measured.attrib["d"]))) == 2
    assert len(list(places(dashed.attrib["d"]))) == legend + line
    met = next(places(measured.attrib["d"]))
    assert list(places(dashed.attrib["d"]))[-1] == pytest.approx(met)
    assert dashed.attrib["class"] == "line dashed"
    assert texts(root, "legend") == ["exchange history"]
    assert "none missing, 4 from exchange history." in (root.findtext("desc") or "")
    assert texts(parsed(draw([1.0, 2.0])), "legend") == []


def test_a_disputed_value_is_left_out_of_the_line_and_said_in_words() -> None:
    line = series([1.0, 2.0, 900.0, 3.0])
    points = [each._replace(is_disputed=each.value == 900) for each in line.points]
    shown = line._replace(points=tuple(points))
    assert "highest 3" in described(shown, str)
    assert "none missing, 1 disputed and left out." in described(shown, str)
    assert "Disputed: 1 of 4 values" in measure_chart(shown, "BTC", "").origin


@pytest.mark.parametrize(
    ("history", "values"),
    [
        (range(0), None),
        (range(4), "values before 2026-11-06 20:00 UTC {}; we measured the rest."),
        (range(6), "all values {}."),
        (range(2, 4), "2 of 6 values {}, for times when we did not measure."),
    ],
)
def test_a_caption_says_which_values_are_backfilled(history: range, values: str | None) -> None:
    shown = backfilled(history)
    kinds: dict[Measure, str] = {"price": "", "funding": " (the last settled rate)"}
    for measure, kind in kinds.items():
        source = f"come from the exchange's own history{kind}"
        said = measure_chart(shown._replace(measure=measure), "BTC", "").origin
        assert said == ("" if values is None else f"Dashed: {values.format(source)}")


@given(st.lists(st.tuples(st.floats(0, 320), st.floats(0, 174)) | st.none(), max_size=400))
def test_a_trace_meets_every_point_without_drift(points: list[tuple[float, float] | None]) -> None:
    wanted = [point for point in points if point is not None]
    drawn = trace(points)
    found = list(places(re.sub("h0", "", drawn)))
    assert len(found) == len(wanted)
    for point, place in zip(wanted, found, strict=True):
        assert place == pytest.approx(point, abs=0.0501)


def test_a_chart_of_360_points_has_about_5_kilobytes() -> None:
    wild = [(-1.0) ** each * 9e9 for each in range(361)]
    calm = [5e9 + 1e8 * sin(each / 9) for each in range(361)]
    torn = [None if each % 15 < 5 else value for each, value in enumerate(wild)]
    data_url = "/api/v1/series/open-interest?venue=bybit&symbol=BTC&from=2026-09-07"
    data_url += "&interval=4h&limit=3000"
    for values, count in ((wild, 0), (calm, 300), (torn, 0), (wild, 180)):
        shown = backfilled(range(count), series(values, 4 * HOUR))
        drawn = draw(shown, prefix="interest", name="BTC open interest", data_url=data_url)
        assert len(drawn.encode()) <= 5_100


def test_the_description_tells_what_the_line_shows() -> None:
    values = [0.01, None, -0.02, 0.03, 0.0]
    root = parsed(draw(values, name="BTC funding", unit="% per 8 h", show="{:+.4f}".format))
    assert root.attrib["role"] == "img"
    named = [root.find(f".//*[@id='{each}']") for each in root.attrib["aria-labelledby"].split()]
    title, description = (each.text for each in named if each is not None)
    assert title == "BTC funding"
    assert description == (
        "BTCUSDT, % per 8 h. From 2026-11-06 17:00 UTC to 2026-11-06 21:00 UTC, one sample every "
        "hour. Lowest -0.0200, highest +0.0300, last +0.0000 at 2026-11-06 21:00 UTC. 5 samples, "
        "1 missing."
    )


def test_a_script_is_told_where_the_values_are() -> None:
    shown = series([1.0, 2.0, 3.0])
    root = parsed(draw(shown, unit="USDT", data_url="/data/x.json?a=1&b=2"))
    told = {name.removeprefix("data-"): value for name, value in root.attrib.items()}
    assert told["series"] == "/data/x.json?a=1&b=2"
    assert told["time"] == f"{shown.points[0].at} {shown.points[-1].at}"
    assert told["newest"] == str(shown.points[-1].at)
    assert told["scale"] == "1 3"
    assert told["unit"] == "USDT"
    box = [float(side) for side in told["box"].split()]
    line = list(places(of_class(root, "line")[0].attrib["d"]))
    assert line[0] == pytest.approx((box[0], box[3]), abs=0.1)
    assert line[-1] == pytest.approx((box[2], box[1]), abs=0.1)


@pytest.mark.parametrize(
    ("measure", "value", "decimals"),
    [
        ("funding", 0.01, "4 4"),
        ("price", 92_000.0, "1 10"),
        ("price", 0.5, "5 10"),
        ("long-accounts", 5.0, "1 1"),
        ("open-interest", 1.5e9, ""),
    ],
)
def test_a_chart_tells_how_many_decimals_its_values_have_and_whether_a_sign(
    measure: Measure, value: float, decimals: str
) -> None:
    chart = measure_chart(series([value, value])._replace(measure=measure), "BTC", "")
    told = parsed(chart.drawing).attrib
    assert told["data-decimals"] == decimals
    assert told.get("data-sign") == ("always" if measure == "funding" else None)


@pytest.mark.parametrize(
    ("measure", "value", "shown"),
    [("price", 0.0071, "0.0071000 USD"), ("open-interest", 1.5e9, "$1.50B")],
)
def test_the_script_abbreviates_amounts_only(measure: Measure, value: float, shown: str) -> None:
    line = series([value, value])._replace(measure=measure, venue="hyperliquid")
    drawn = parsed(measure_chart(line, "BTC", "").drawing).attrib
    given = json.dumps({name.removeprefix("data-"): text for name, text in drawn.items()})
    source = packaged_files()["site.js"].pages[b""].body.decode()
    used = re.findall(r"(?ms)^const LETTERS.*?$|^function (?:amount|usd)\(.*?^}$", source)
    script = f"{chr(10).join(used)}\nconsole.log(amount({value}, {given}))"
    ended = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == shown


def test_a_chart_without_data_to_fetch_promises_none() -> None:
    assert "data-" not in draw([1.0, 2.0])
    assert "data-" not in draw([None], data_url="/data/x.json")


def test_bands_are_shown_as_far_as_the_scale_goes_and_the_line_is_not_written_over() -> None:
    root = parsed(draw([0.01] * 24, bands=REGIME_BANDS))
    assert texts(root, "band-name") == ["neutral"]
    assert [each.attrib["class"] for each in of_class(root, "band")] == ["band band-neutral"]
    root = parsed(draw([-0.06, *[0.06] * 23], bands=REGIME_BANDS))
    assert len(of_class(root, "band")) == 5
    root = parsed(draw([-2.0, 2.0], bands=REGIME_BANDS))  # without room for every name
    assert set(texts(root, "band-name")) <= {"short-crowded", "long-crowded"}


def test_longs_stand_below_shorts_and_what_was_hardly_watched_is_hatched() -> None:
    shown = liquidations((100.0, 50.0, 100), (80.0, 20.0, 40), (None, None, 0), (0.0, 0.0, 100))
    root = parsed(column_chart(shown, prefix="l", name="Liquidations", data_url="/data/l.json"))
    hatch = of_class(root, "partial")[0]
    assert hatch.attrib["fill"] == "url(#l-h)"
    assert root.find(".//*[@id='l-h']") is not None
    assert hatch.attrib["d"].count("M") == 1
    assert of_class(root, "gap")[0].attrib["d"].count("M") == 1
    longs, shorts = (of_class(root, side)[0].attrib["d"] for side in ("long", "short"))
    assert (longs.count("M"), shorts.count("M")) == (2, 2)  # nothing is drawn for zero
    bottom = float(root.attrib["data-box"].split()[3])
    assert max(y for _, y in places(longs)) == pytest.approx(bottom, abs=0.1)
    first_long = min(y for _, y in places(longs))
    assert max(y for _, y in list(places(shorts))[:4]) == pytest.approx(first_long, abs=0.11)
    description = root.findtext("desc")
    assert description is not None
    assert "4 columns, 1 with too little coverage, 1 without coverage." in description
    assert "Total: longs $180, shorts $70." in description


def test_a_column_chart_without_liquidations_begins_at_zero_or_says_that_we_watch() -> None:
    unwatched = liquidations((None, None, 0))
    shown = (liquidations((0.0, 0.0, 100)), unwatched, unwatched._replace(watched_since=START))
    drawn = [parsed(column_chart(each, prefix="l", name="Liquidations")) for each in shown]
    assert [texts(root, "axis")[0] for root in drawn] == [
        *("0", "no data recorded", "watching has just begun")
    ]


def test_a_column_that_is_not_over_is_not_told_as_one_that_was_hardly_watched() -> None:
    shown = liquidations((1.0, 1.0, 100), (1.0, 1.0, 40), (1.0, 1.0, 50))
    drawn = column_chart(shown._replace(as_of=shown.as_of - 1), prefix="l", name="Liquidations")
    root = parsed(drawn)
    description = root.findtext("desc") or ""
    assert "3 columns, 1 with too little coverage; the last is still in progress." in description
    assert of_class(root, "partial")[0].attrib["d"].count("M") == 2


def test_a_column_whose_sides_are_disputed_shows_only_their_total() -> None:
    shown = liquidations((1.0, 2.0, 100), (4.0, 5.0, 100))
    first, last = shown.columns
    shown = shown._replace(columns=(first, last._replace(is_disputed=True)))
    root = parsed(column_chart(shown, prefix="l", name="Liquidations"))
    assert "Total: $12, sides disputed in 1 of 2 columns." in (root.findtext("desc") or "")
    for kind in ("long", "short", "disputed"):  # the legend has one path of each side
        assert of_class(root, kind)[0].attrib["d"].count("M") == 1
    chart = liquidations_chart(shown, 95.0, "", timeline(60, shown.as_of), "bybit")
    assert chart.origin.startswith("Disputed: the sides of 1 of 2 bars contradict the price")


def test_a_gauge_follows_the_rate_to_its_ends_and_an_unknown_rate_is_not_zero() -> None:
    def marker(rate_pct: float) -> float:
        root = parsed(gauge("neutral", rate_pct, prefix="g"))
        return next(places(of_class(root, "marker")[0].attrib["d"]))[0]

    assert marker(-9.0) < marker(-0.02) < marker(0.01) < marker(0.02) < marker(9.0)
    assert marker(9.0) == marker(0.05)
    assert texts(parsed(gauge("long-crowded", 9.0, prefix="g")), "value") == ["+9.0000 % per 8 h"]
    unknown = parsed(gauge("unknown", None, prefix="g"))
    assert texts(unknown, "value") == ["unknown"]
    assert "unknown" in (unknown.findtext("desc") or "")


def test_texts_from_elsewhere_stay_text() -> None:
    shown = series([1.0, 2.0])._replace(contract=HOSTILE)
    drawn = draw(shown, name=HOSTILE, unit=HOSTILE, data_url=HOSTILE)
    root = expect_sound(drawn)
    assert root.findtext("title") == HOSTILE.replace("\0", " ").replace("\ufffe", " ")
    assert "<script" not in drawn


def test_a_prefix_that_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="letters, digits and hyphens"):
        draw([1.0], prefix='a" onload="')

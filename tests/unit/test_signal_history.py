"""The history of a signal, as facts and as a drawing."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.macro.evidence import CurveChange, curve_move
from barograph.markets.regime import LABELS
from barograph.signals.methods import (
    BREADTH,
    BY_KEY,
    EQUAL,
    POSITIONING,
    PRESSURE,
    SPREAD,
    TREND,
    VOLATILITY,
)
from barograph.signals.records import SignalChange
from barograph.site.charts.small import NOT_RECORDED, SCALES, Lane, Span, lanes
from barograph.site.signals import HISTORY_DAYS, SignalHistory, label_at, signal_history

NOW = 1_000 * DAY
START = NOW - HISTORY_DAYS * DAY
KEY = "btc-funding-regime"


def change(at: int, label: str) -> SignalChange:
    return SignalChange(KEY, at, label, "value")


def shares(found: SignalHistory) -> dict[str, float]:
    return {lane.label: round(lane.share_pct, 6) for lane in found.lanes}


def test_the_label_at_an_instant_is_the_last_one_taken_by_then_while_it_was_judged() -> None:
    changes = [change(100, "a"), change(200, "b")]

    held = [label_at(changes, at, NOW) for at in (99, 100, 199, 200)]
    assert held == [None, changes[0], changes[0], changes[1]]
    assert label_at(changes, 150, 0) == changes[0]  # until the next change it was judged
    assert label_at(changes, 250, 250) == changes[1]
    assert label_at(changes, 251, 250) is label_at([], 250, 250) is None


@pytest.mark.parametrize(
    ("changes", "held_until", "expected"),
    [
        ([(30, "neutral")], NOW, {"neutral": 50, NOT_RECORDED: 50}),
        ([(65, "neutral"), (15, "long-leaning")], NOW, {"long-leaning": 25, "neutral": 75}),
        ([(45, "neutral")], NOW - 30 * DAY, {"neutral": 25, NOT_RECORDED: 75}),
        ([(45, "neutral")], 0, {NOT_RECORDED: 100}),
        ([(45, "neutral")], NOW + DAY, {"neutral": 75, NOT_RECORDED: 25}),
    ],
    ids=["half", "held before the days shown", "not judged since", "never judged", "ahead"],
)
def test_time_is_shared_among_labels_and_what_is_not_recorded(
    changes: list[tuple[int, str]], held_until: int, expected: dict[str, float]
) -> None:
    taken = [change(NOW - days * DAY, label) for days, label in changes]
    history = signal_history(KEY, taken, NOW, held_until)

    assert shares(history) == expected
    assert history.total == 1


@pytest.mark.parametrize(
    ("minutes", "times"), [(0, ["100 %"]), (1, ["< 1 %", "> 99 %"]), (43_200, ["50 %", "50 %"])]
)
def test_only_everything_is_100_percent_of_the_time(minutes: int, times: list[str]) -> None:
    spans = [Span("neutral", START, START + minutes * MINUTE)] if minutes else []

    found = lanes(KEY, spans, START, NOW)

    assert [lane.time for lane in found] == times
    for lane in found:
        words = ET.fromstring(str(lane.drawing)).get("aria-label")
        assert words == f"{lane.label}: {lane.time} of the time"


def test_lanes_go_from_high_to_low_with_what_says_nothing_at_the_end() -> None:
    labels = ["unknown", "short-crowded", "new-label", "neutral", "long-crowded"]
    spans = [
        Span(label, START + DAY * number, START + DAY * (number + 1))
        for number, label in enumerate(labels)
    ]

    found = lanes(KEY, spans, START, NOW)

    assert [lane.label for lane in found] == [
        *("long-crowded", "neutral", "short-crowded", "new-label", "unknown", NOT_RECORDED)
    ]
    assert [lane.tone for lane in found] == [
        *("high-far", "middle", "low-far", "middle", "none", "none")
    ]


def test_every_label_that_a_method_can_give_has_its_lane() -> None:
    curves = {
        curve_move(CurveChange(change10y, change10y), CurveChange(slope, slope)).replace(" ", "-")
        for change10y in (-1, 0, 1)
        for slope in (-1, 0, 1)
    }
    assert set(SCALES) == set(BY_KEY)
    assert set(SCALES["us-rates"]) == curves
    assert set(SCALES[KEY]) == set(LABELS)
    for key, bands in {
        "funding-breadth": BREADTH,
        "liquidation-pressure": PRESSURE,
        "btc-long-accounts": POSITIONING,
        "btc-open-interest-trend": TREND,
        "btc-realised-volatility": VOLATILITY,
    }.items():
        assert list(SCALES[key]) == [*reversed(bands.labels)]
    assert list(SCALES["cross-venue-funding"]) == [*reversed(SPREAD.labels), EQUAL]


def coordinates(lane: Lane) -> list[float]:
    drawing = ET.fromstring(str(lane.drawing))
    assert drawing.get("role") == "img"
    assert str(drawing.get("aria-label")).startswith(f"{lane.label}: ")
    (path,) = drawing
    assert path.get("class") == lane.tone
    return [float(each) for each in re.findall(r"[MH]([\d.]+)", str(path.get("d")))]


@given(
    st.lists(st.tuples(st.integers(0, HISTORY_DAYS * DAY), st.sampled_from("abc")), max_size=40),
    st.integers(0, HISTORY_DAYS * DAY + DAY),
)
def test_histories_are_drawn_within_their_box(drawn: list[tuple[int, str]], held: int) -> None:
    changes = [change(START - DAY + at, label) for at, label in sorted(dict(drawn).items())]

    found = signal_history(KEY, changes, NOW, START + held)

    assert sum(lane.share_pct for lane in found.lanes) == pytest.approx(100)
    width = HISTORY_DAYS * DAY / HOUR
    for lane in found.lanes:
        assert all(0 <= each <= width for each in coordinates(lane))


def test_what_lasted_a_minute_can_be_seen_and_many_of_them_stay_small() -> None:
    changes = [
        change(START + number * 60_000, ("neutral", "long-leaning")[number % 2])
        for number in range(20_000)
    ]

    found = signal_history(KEY, changes, NOW, NOW)

    assert sum(len(lane.drawing) for lane in found.lanes) < 1_000
    first = lanes(KEY, [Span("neutral", START, START + 60_000)], START, NOW)[0]
    assert max(coordinates(first)) == 2


def test_a_label_is_text_whatever_is_in_it() -> None:
    hostile = '<script>"&'

    (lane, _) = lanes(KEY, [Span(hostile, START, START + DAY)], START, NOW)

    assert "<script>" not in lane.drawing
    assert coordinates(lane)

"""The 24-hour window counts each liquidation once, to the cent, and knows what it watched."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.errors import InvalidReply
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.liquidations import (
    MAX_PER_DAY,
    LiquidationTotals,
    LiquidationTracker,
    LiquidationWindow,
)
from barograph.venues.records import Liquidation, Side
from barograph.venues.spans import WatchedSpans
from support.clock import START

Spans = list[tuple[int, int]]

BASES = {"BTCUSDT": "BTC", "ETHUSDT": "ETH", "1000PEPEUSDT": "1000PEPE"}


def event(
    at: int = START,
    contract: str = "BTCUSDT",
    side: Side = "long",
    size: float = 1.0,
    price: float = 100.0,
) -> Liquidation:
    return Liquidation(at, contract, side, size, price)


def totals(window: LiquidationWindow, as_of: int = START) -> LiquidationTotals:
    return window.totals(as_of, WatchedSpans([(as_of - DAY, as_of)]), BASES)


def total(*events: Liquidation, as_of: int = START) -> float:
    window = LiquidationWindow()
    window.add(events)
    return totals(window, as_of).total_usd


def cents(each: Liquidation) -> int:
    return round(each.notional_usd * 100)


events = st.builds(
    Liquidation,
    st.integers(START - 3 * DAY, START),
    st.sampled_from(sorted(BASES)),
    st.sampled_from(["long", "short"]),
    st.floats(0.001, 1_000),
    st.floats(0.01, 90_000),
)


@pytest.mark.outcome("A liquidation batch arrives twice", "Each liquidation counts once.")
def test_a_liquidation_heard_twice_counts_once_whoever_sends_it() -> None:
    window = LiquidationWindow()

    assert window.add([event(), event()]) == [event()]
    assert window.add([event(), event(size=2.0)]) == [event(size=2.0)]
    assert totals(window).total_usd == 300.0


@pytest.mark.parametrize(
    "other",
    [
        event(at=START - 1),
        event(contract="ETHUSDT"),
        event(side="short"),
        event(size=1.5),
        event(price=101.0),
    ],
)
def test_liquidations_that_differ_in_any_member_both_count(other: Liquidation) -> None:
    assert total(event(), other) == event().notional_usd + other.notional_usd


@given(st.lists(events, max_size=40), st.randoms(use_true_random=False), st.integers(1, 5))
@settings(max_examples=60)
def test_liquidations_come_and_go_to_the_cent_in_any_order_batch_and_number(
    heard: list[Liquidation], chance: random.Random, connections: int
) -> None:
    told = heard * connections
    chance.shuffle(told)
    window, fresh = LiquidationWindow(), []
    while told:
        size = chance.randint(1, 7)
        fresh += window.add(told[:size])
        del told[:size]

    assert len(fresh) == len(set(fresh)) == len(set(heard))
    for later in (0, HOUR, DAY // 2, DAY + 1):
        alive = {each for each in heard if each.at >= START + later - DAY}
        sums = totals(window, START + later)
        exact = sum(map(cents, alive))
        longs = sum(cents(each) for each in alive if each.side == "long")
        assert sums.total_usd == exact / 100
        assert sums.long_pct == (round(100 * longs / exact, 2) if exact else None)


def test_more_liquidations_than_can_be_right_are_refused() -> None:
    tracker = LiquidationTracker(95.0)
    tracker.liquidated([event()])
    with pytest.raises(InvalidReply):
        tracker.liquidated([event(size=2.0)] * MAX_PER_DAY)
    assert tracker.unsaved == [event()]


def test_a_liquidation_counts_until_it_is_exactly_24_hours_old() -> None:
    assert total(event(START), as_of=START + DAY) == 100.0
    assert total(event(START), as_of=START + DAY + 1) == 0.0


def test_a_late_repeat_of_an_expired_liquidation_is_not_counted_again() -> None:
    window = LiquidationWindow()
    window.add([event()])
    later = START + DAY + 1
    totals(window, later)

    window.add([event()])

    assert totals(window, later).total_usd == 0.0


def test_minutes_are_forgotten_also_late_ones_and_behind_one_from_the_future() -> None:
    window = LiquidationWindow()
    minute = START // MINUTE * MINUTE
    ahead = minute + 365 * DAY
    window.add([event(ahead), event(minute), event(minute - HOUR), event(minute - 3 * DAY)])
    assert window.between(minute, minute + MINUTE) == {("BTCUSDT", "long"): 100.0}

    totals(window, minute + DAY + MINUTE)

    assert window.between(minute - 4 * DAY, minute + HOUR) == {}
    assert window.between(ahead, ahead + MINUTE) == {("BTCUSDT", "long"): 100.0}


@pytest.mark.parametrize("expired", [[], [event(START - DAY - 1)]], ids=["empty", "empty again"])
def test_an_empty_window_has_zero_dollars_no_share_and_no_asset(expired: list[Liquidation]) -> None:
    window = LiquidationWindow()
    window.add(expired)

    assert totals(window) == LiquidationTotals(
        START, 100.0, 0.0, None, None, START, watching_since=START - DAY, by_contract={}
    )


def test_the_top_asset_has_the_largest_total_of_both_sides_until_they_expire() -> None:
    window = LiquidationWindow()
    window.add([event(size=5), event(contract="ETHUSDT", size=3)])
    window.add([event(START - DAY, contract="ETHUSDT", side="short", size=3)])

    assert totals(window).top_asset == "ETH"
    assert totals(window, START + 1).top_asset == "BTC"


def test_totals_carry_the_instant_and_the_coverage_they_were_asked_for() -> None:
    watch = WatchedSpans([(START + 7 - DAY // 4, START)])
    seen = LiquidationWindow().totals(START + 7, watch, BASES)

    assert (seen.as_of, seen.watched_pct, seen.watched_until) == (START + 7, 24.99, START)


SLOTS = 1_000
SLOT = DAY // SLOTS
spans = st.lists(
    st.tuples(st.integers(0, 2_500), st.integers(1, 400)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=25,
)


def run_around(watched: set[int], start: int, end: int) -> tuple[int, int]:
    """The longest run of watched slots that holds all from `start` to `end`."""
    while start - 1 in watched:
        start -= 1
    while end in watched:
        end += 1
    return start, end


@given(spans, st.integers(0, 3_500))
@settings(max_examples=60)
def test_watched_spans_agree_with_a_model_that_marks_every_slot(added: Spans, as_of: int) -> None:
    log, watched = WatchedSpans(), set[int]()
    for start, end in added:
        watched.update(range(start, end))
        merged = log.add(start * SLOT, end * SLOT)
        assert merged == tuple(slot * SLOT for slot in run_around(watched, start, end))

    seen = len(watched & set(range(as_of - SLOTS, as_of)))
    assert log.watched_pct(as_of * SLOT) == 10_000 * seen // SLOTS / 100


def test_a_span_is_summed_by_contract_and_side_with_its_first_instant_but_not_its_last() -> None:
    window = LiquidationWindow()
    window.add([event(START), event(START + MINUTE - 1, size=2), event(START + MINUTE, size=4)])
    window.add([event(), event(side="short", size=3), event(contract="ETHUSDT", size=0.01)])

    assert window.between(START, START + MINUTE) == {
        ("BTCUSDT", "long"): 300.0,
        ("BTCUSDT", "short"): 300.0,
        ("ETHUSDT", "long"): 1.0,
    }
    assert window.between(START + MINUTE, START + 2 * MINUTE) == {("BTCUSDT", "long"): 400.0}
    assert window.between(START - HOUR, START) == {}


@given(st.lists(events, max_size=40), st.integers(1, 23))
@settings(max_examples=60)
def test_the_hours_of_the_window_add_up(heard: list[Liquidation], hours: int) -> None:
    window = LiquidationWindow()
    for each in heard:
        window.add([each])
        totals(window)

    start = START - hours * HOUR
    summed = sum(
        usd
        for hour in range(start, START, HOUR)
        for usd in window.between(hour, hour + HOUR).values()
    )
    inside = {each for each in heard if start <= each.at < START}
    assert round(summed * 100) == sum(map(cents, inside))


@pytest.mark.parametrize(
    ("watched", "pct"),
    [
        ([], 0.0),
        ([(START, START + HOUR)], 100.0),
        ([(START - DAY, START + DAY)], 100.0),
        ([(START, START + HOUR // 4), (START + HOUR // 2, START + 2 * HOUR)], 75.0),
        ([(START - HOUR, START), (START + HOUR, START + 2 * HOUR)], 0.0),
    ],
)
def test_a_spans_coverage_is_its_watched_share(watched: Spans, pct: float) -> None:
    assert WatchedSpans(watched).pct_within(START, START + HOUR) == pct

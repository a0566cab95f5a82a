"""Comparison of venues finds errors that begin while they run, and blames nobody for the market.

The market and the errors are those of the benchmark, which has many more seeds.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import pytest
from benchmarks.disputes import (
    CASES,
    FROZEN,
    THREE,
    TWO,
    WARM_UP,
    Market,
    Seen,
    compared,
    distorted,
    false_accusations,
    judged,
)

from barograph.collector.judge import Judge
from barograph.kit.timestamps import MINUTE
from barograph.markets.disputes import Dispute, DisputeTracker
from barograph.settings import Settings
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(3)


@pytest.fixture(scope="module")
def before(market: Market) -> list[Seen]:
    return [market.minute() for _ in range(WARM_UP)]


@pytest.fixture(scope="module")
def minutes(before: list[Seen], market: Market) -> list[Seen]:
    """The last minute without errors, and those after it."""
    return [before[-1], *(market.minute() for _ in range(40))]


@pytest.fixture(scope="module")
def warm(before: list[Seen]) -> Mapping[Sequence[str], DisputeTracker]:
    trackers: dict[Sequence[str], DisputeTracker]
    trackers = {venues: DisputeTracker() for venues in (THREE, TWO, (BYBIT,))}
    for venues, tracker in trackers.items():
        assert not any(compared(tracker, minute, venues) for minute in before)
    return trackers


@pytest.fixture
def tracker(warm: Mapping[Sequence[str], DisputeTracker]) -> DisputeTracker:
    """Has compared three venues until the error."""
    return deepcopy(warm[THREE])


@pytest.mark.outcome(
    "Open interest, prices or funding of one venue contradict the other venues",
    "The measure is `disputed`: totals leave it out, and `/api/status` names it.",
)
@pytest.mark.outcome(
    "A venue publishes liquidations with the wrong side",
    "The measure is `disputed`: totals leave it out, and `/api/status` names it.",
)
@pytest.mark.parametrize(
    ("name", "venues"),
    [
        *((name, THREE) for name in CASES),
        # Hyperliquid publishes no liquidations.
        *((name, TWO) for name, case in CASES.items() if case.measure != "liquidation-side"),
    ],
)
def test_an_error_is_found_in_time_and_at_its_venue_alone(
    name: str,
    venues: Sequence[str],
    minutes: list[Seen],
    warm: Mapping[Sequence[str], DisputeTracker],
) -> None:
    case = CASES[name]
    found_after, accused = judged(case, BYBIT, venues, warm[venues], minutes)
    assert accused == {BYBIT}
    assert found_after is not None
    assert found_after <= case.within


def test_a_dispute_says_since_when_and_why_and_ends_after_five_good_minutes(
    tracker: DisputeTracker, minutes: list[Seen]
) -> None:
    for minute in distorted(CASES["open interest +50 %"], HYPERLIQUID, minutes[:11]):
        disputes = compared(tracker, minute)
    ends = [compared(tracker, minute) for minute in minutes[11:18]]

    (dispute,) = disputes
    assert dispute.since == minutes[0][0][BYBIT].as_of
    assert dispute.why == (
        "the open interest of BTC is 1.5 times its usual level relative to Binance and Bybit"
    )
    assert [len(each) for each in ends] == [1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("has_others", [False, True])
def test_disputed_sides_name_the_other_venues_only_if_these_contradict(
    tracker: DisputeTracker, minutes: list[Seen], has_others: bool
) -> None:
    wrong = distorted(CASES["liquidations with the other side"], BYBIT, minutes)
    closed_alone = [
        (readings, closed if has_others else {BYBIT: closed[BYBIT]}) for readings, closed in wrong
    ]
    found = [dispute for minute in closed_alone for dispute in compared(tracker, minute)]

    why = "the sides of its liquidations contradict the price"
    same = " and the sides of the same coins and minutes at other venues"
    assert {each.why for each in found} == {why + same * has_others}


@pytest.mark.parametrize(
    ("seed", "name", "venue"),
    [
        (5_000, "funding x100", HYPERLIQUID),
        (3_002, "funding of ETH alone x100", HYPERLIQUID),
        (3_001, "price +3 %", BINANCE),
    ],
)
def test_a_dispute_lasts_as_long_as_its_error_and_is_the_only_one(
    seed: int, name: str, venue: str
) -> None:
    market, tracker = Market(seed), DisputeTracker()
    warm_up = [compared(tracker, market.minute()) for _ in range(WARM_UP)]
    seen = [market.minute() for _ in range(121)]
    wrong = [compared(tracker, minute) for minute in distorted(CASES[name], venue, seen)]
    found = {(each.venue, each.measure) for disputes in wrong[1:] for each in disputes}
    assert found == {(venue, CASES[name].measure)}
    assert [len(each) for each in (*warm_up, *wrong)] == [0] * (WARM_UP + 1) + [1] * 119
    assert [len(compared(tracker, market.minute())) for _ in range(7)] == [1] * 5 + [0] * 2


def test_values_that_stopped_changing_are_wrong_since_their_last_change(
    tracker: DisputeTracker, minutes: list[Seen]
) -> None:
    disputes = [compared(tracker, minute) for minute in distorted(FROZEN, BYBIT, minutes)]

    assert {each.measure for each in disputes[4]} == {"price", "funding", "open-interest"}
    assert {each.since for each in disputes[4]} == {minutes[0][0][BYBIT].as_of}
    why = disputes[4][-1].why
    assert why.startswith("the price of BTC has not changed for 5 minutes, while it did at")
    assert disputes[-1] == disputes[4]


def test_a_frozen_venue_and_a_wrong_one_are_both_cleared_when_they_are_right_again(
    warm: Mapping[Sequence[str], DisputeTracker], minutes: list[Seen]
) -> None:
    tracker = deepcopy(warm[TWO])
    wrong = [*distorted(CASES["price +3 %"], HYPERLIQUID, minutes[:13])]
    frozen = distorted(FROZEN, BYBIT, minutes[3:13])
    both = [
        (each | {BYBIT: readings[BYBIT]}, closed)
        for (each, closed), (readings, _) in zip(wrong[3:], frozen, strict=True)
    ]
    for minute in [*wrong[:3], *both]:
        disputes = compared(tracker, minute, TWO)
    assert {each.venue for each in disputes} == {BYBIT, HYPERLIQUID}
    assert not [compared(tracker, minute, TWO) for minute in minutes[13:]][-1]


def test_a_venue_that_returns_after_a_day_finds_its_dispute_ended_and_is_learned_again(
    tracker: DisputeTracker, market: Market, minutes: list[Seen]
) -> None:
    for minute in distorted(CASES["price +3 %"], BINANCE, minutes[:5]):
        disputes = compared(tracker, minute)
    assert [each.venue for each in disputes] == [BINANCE]

    later = deepcopy(market)
    later.now += 20 * 60 * MINUTE
    later.price = {name: 0.8 * price for name, price in later.price.items()}
    assert not any(compared(tracker, later.minute(), TWO) for _ in range(30))
    seen = [later.minute() for _ in range(41)]
    changed = distorted(CASES["open interest +50 %"], BINANCE, seen)
    assert not any(compared(tracker, minute) for minute in changed)


@pytest.mark.parametrize("wrong", ["price +3 %", "open interest in USD", "funding x100"])
def test_an_error_in_a_single_reading_is_not_disputed(
    wrong: str, tracker: DisputeTracker, minutes: list[Seen]
) -> None:
    (bad,) = distorted(CASES[wrong], BINANCE, minutes[:2])
    assert not any(compared(tracker, minute) for minute in [bad, *minutes[2:]])


def test_one_venue_says_nothing(
    minutes: list[Seen], warm: Mapping[Sequence[str], DisputeTracker]
) -> None:
    alone = (BYBIT,)
    assert judged(CASES["price +3 %"], BYBIT, alone, warm[alone], minutes) == (None, set())


def test_a_venue_that_fails_is_not_frozen_however_long_its_reading_counts_as_fresh() -> None:
    judge, market = Judge(Settings(venues="bybit,hyperliquid", feed_max_age_seconds=900)), Market(1)
    found: list[Dispute] = []
    for number in range(50):
        readings, _ = market.minute()
        for venue in TWO if number < 40 else (HYPERLIQUID,):
            conclusion = judge.conclude(readings[venue], market.now)
            judge.written(conclusion)
            found += conclusion.disputes
    assert found == []


@pytest.mark.thorough
def test_a_day_of_crashes_and_outages_raises_no_dispute() -> None:
    assert false_accusations(1, 2, is_stressed=True) == [0, 0]

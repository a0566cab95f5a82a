"""Comparison of venues finds errors that begin while they run, and blames nobody for the market.

The market and the errors are those of the benchmark, which has many more seeds.
"""

from collections.abc import Sequence

import pytest
from benchmarks.disputes import (
    CASES,
    LONGEST,
    THREE,
    TWO,
    WARM,
    Market,
    Seen,
    compared,
    distorted,
    false_accusations,
    judged,
)

from barograph.kit.timestamps import MINUTE
from barograph.markets.disputes import DisputeTracker
from barograph.markets.venues import BINANCE, BYBIT, HYPERLIQUID

AFTERWARDS = 8


@pytest.fixture(scope="module")
def minutes() -> list[Seen]:
    market = Market(1)
    return [market.minute() for _ in range(WARM + LONGEST + AFTERWARDS)]


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
    name: str, venues: Sequence[str], minutes: list[Seen]
) -> None:
    case = CASES[name]
    outcome = judged(case, BYBIT, venues, minutes[: WARM + LONGEST])
    assert outcome.accused == {BYBIT}
    assert outcome.found_after is not None
    assert outcome.found_after <= case.within


def test_a_dispute_says_since_when_and_why_and_ends_after_five_good_minutes(
    minutes: list[Seen],
) -> None:
    tracker, case = DisputeTracker(), CASES["open interest +50 %"]
    for each in minutes[:WARM]:
        assert not compared(tracker, each)
    for each in distorted(case, HYPERLIQUID, minutes[WARM - 1 : WARM + 10]):
        disputes = compared(tracker, each)
    ends = [compared(tracker, each) for each in minutes[WARM + 10 :]]

    (dispute,) = disputes
    assert dispute.since == minutes[WARM - 1][0][BYBIT].as_of
    assert dispute.why == (
        "the open interest of BTC is 1.51 times what it usually is compared with Binance and Bybit"
    )
    assert [len(each) for each in ends[:7]] == [1, 1, 1, 1, 1, 0, 0]


def test_values_that_stopped_changing_are_wrong_since_their_last_change(
    minutes: list[Seen],
) -> None:
    tracker = DisputeTracker()
    seen = [*minutes[:WARM], *distorted(CASES["all values frozen"], BYBIT, minutes[WARM - 1 :])]
    disputes = [compared(tracker, each) for each in seen][WARM + 4]

    assert {each.measure for each in disputes} == {"price", "funding", "open-interest"}
    assert {each.since for each in disputes} == {minutes[WARM - 1][0][BYBIT].as_of}
    assert disputes[-1].why.startswith("the price of BTC has not changed for 4 minutes, while at")


def test_a_venue_that_returns_after_a_day_finds_its_dispute_ended_and_is_learned_again() -> None:
    market, tracker = Market(3), DisputeTracker()
    seen = [market.minute() for _ in range(WARM + 5)]
    for each in [*seen[:WARM], *distorted(CASES["price +3 %"], BINANCE, seen[WARM - 1 :])]:
        disputes = compared(tracker, each)
    assert [each.venue for each in disputes] == [BINANCE]

    assert not compared(tracker, market.minute(), TWO)
    while market.now % (60 * MINUTE):
        market.minute()
    for venue in THREE:
        market.scale_open_interest(venue, {BINANCE: 0.4}.get(venue, 1.3))
    market.price = {name: 0.8 * price for name, price in market.price.items()}
    assert not any(compared(tracker, market.minute(), TWO) for _ in range(30))
    assert not any(compared(tracker, market.minute()) for _ in range(60))


@pytest.mark.parametrize("wrong", ["price +3 %", "open interest in USD", "funding x100"])
def test_an_error_in_a_single_reading_is_not_disputed(wrong: str, minutes: list[Seen]) -> None:
    tracker = DisputeTracker()
    (bad,) = distorted(CASES[wrong], BINANCE, minutes[WARM - 1 : WARM + 1])
    assert not any(compared(tracker, each) for each in [*minutes[:WARM], bad, *minutes[WARM + 1 :]])


def test_one_venue_says_nothing(minutes: list[Seen]) -> None:
    assert judged(CASES["price +3 %"], BYBIT, (BYBIT,), minutes).accused == set()


@pytest.mark.thorough
@pytest.mark.parametrize("venues", [THREE, TWO], ids=["three venues", "two venues"])
def test_a_day_of_crashes_and_outages_raises_no_dispute(venues: Sequence[str]) -> None:
    assert false_accusations(2, 1, venues, is_stressed=True) == 0

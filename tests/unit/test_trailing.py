"""The record that rules look back on: in order, once, for 30 days, and nothing invented."""

from itertools import accumulate
from math import exp, sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import (
    SPIKE,
    TRAILING,
    Hour,
    TrailingRecord,
    percentile_rank,
    realised_volatility,
)
from barograph.markets.frames import FrameRecord, frame_of, stored
from barograph.markets.liquidations import LiquidationHour
from barograph.venues.records import PastValues
from support.evidence import AT, add_hours, add_liquidations, closed
from support.markets import BTC

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def hour(at: int, price: float = 100.0) -> Hour:
    return Hour(at, price, 5.0, None)


def test_hours_of_each_major_come_in_order_and_once() -> None:
    trailing = TrailingRecord()
    for at, price in ((AT, 1.0), (AT + HOUR, 2.0), (AT + HOUR, 3.0), (AT - HOUR, 4.0)):
        trailing.add_hour("BTC", hour(at, price))
    trailing.add_hour("ETH", hour(AT - HOUR))

    assert list(trailing.hours("BTC")) == [hour(AT, 1.0), hour(AT + HOUR, 2.0)]
    assert list(trailing.hours("BTC", since=AT + HOUR)) == [hour(AT + HOUR, 2.0)]
    assert list(trailing.hours("BTC", since=AT + HOUR + 1)) == []
    assert list(trailing.hours("ETH")) == [hour(AT - HOUR)]
    assert list(trailing.hours("SOL")) == []


def test_hours_are_kept_for_30_days_and_prices_for_good_except_those_from_the_future() -> None:
    trailing = TrailingRecord()
    trailing.add_price("BTC", AT - 32 * DAY, 99.0)
    add_hours(trailing, 31 * 24)

    kept = trailing.hours("BTC")
    assert (kept[-1].at - kept[0].at, len(kept)) == (TRAILING - HOUR, 30 * 24)
    trailing.forget_after(AT - 2 * HOUR)
    prices = list(trailing.prices("BTC"))
    assert (prices[0], prices[-1]) == ((AT - 32 * DAY, 99.0), (AT - 2 * HOUR, 100.0))
    assert len(prices) == 31 * 24


def test_the_frame_nearest_to_24_hours_before_is_found_if_it_is_within_five_minutes() -> None:
    taken, five = [AT, AT + 4 * MINUTE, AT + HOUR], 5 * MINUTE
    frames = FrameRecord([stored(frame_of(at, (BTC,))) for at in taken[1:]])
    frames.add(stored(frame_of(AT, (BTC,))))  # in order, even after a clock was set back
    asked = (-five - 1, -five, 2 * MINUTE, 2 * MINUTE + 1, 9 * MINUTE, 9 * MINUTE + 1, HOUR - five)

    nearest = [frames.day_before(AT + DAY + after) for after in asked]

    first, second, third = taken
    assert [frame.at for frame in nearest] == [0, first, first, second, second, 0, third]
    before = PastValues(BTC.last_price, BTC.open_interest_usd, None, BTC.funding_8h_pct)
    assert nearest[1].contracts == {"BTCUSDT": before}
    assert nearest[0].contracts == {}
    frames.add(stored(frame_of(AT + DAY + five + 1, (BTC,))))
    assert frames.day_before(AT + DAY).at == second


def test_liquidation_hours_come_in_order_once_and_for_30_days() -> None:
    trailing = add_liquidations(TrailingRecord(), 31 * 24)
    trailing.add_liquidation_hour(closed(9.0, at=AT - 2 * HOUR))
    trailing.add_liquidation_hour(closed(9.0, at=AT - 5 * HOUR))

    kept = trailing.liquidation_hours(95)

    assert kept[-1] == closed(31 * 24 - 1, at=AT - 2 * HOUR)
    assert (kept[-1].at - kept[0].at, len(kept)) == (TRAILING - HOUR, 30 * 24)
    assert trailing.newest_liquidation_hour == AT - 2 * HOUR


def test_only_hours_that_were_watched_enough_are_compared_with() -> None:
    trailing = TrailingRecord()
    for number, watched in enumerate((94.99, 95.0, 0.0, 100.0)):
        trailing.add_liquidation_hour(LiquidationHour(AT + number * HOUR, 1.0, 1.0, watched))

    assert [each.watched_pct for each in trailing.liquidation_hours(95)] == [95.0, 100.0]
    assert len(trailing.liquidation_hours(0)) == 4


def test_volatility_is_that_of_24_hourly_returns_over_a_year() -> None:
    prices = [100 * exp(0.01 * (number % 2)) for number in range(25)]
    hours = [hour(AT + number * HOUR, price) for number, price in enumerate(prices)]

    assert realised_volatility(hours) == pytest.approx(100 * 0.01 * sqrt(365 * 24))
    assert realised_volatility([hour(past.at) for past in hours]) == 0.0  # zero is known
    for missing in (0, 1, 12, 24):
        assert realised_volatility([*hours[:missing], *hours[missing + 1 :]]) is None


def day_of(returns: list[float], wrong: int | None = None, factor: float = 1.0) -> list[Hour]:
    """The hours of a day with these returns, and one wrong price."""
    prices = [100 * exp(logarithm) for logarithm in accumulate([0.0, *returns])]
    if wrong is not None:
        prices[wrong] *= factor
    return [hour(AT + number * HOUR, price) for number, price in enumerate(prices)]


@pytest.mark.parametrize("factor", [1.05, 0.5, 1.02, 0.9])
def test_one_wrong_price_cannot_double_the_volatility(factor: float) -> None:
    chance = Random(1)
    for _ in range(8):
        returns = [chance.gauss(0, 0.006) for _ in range(24)]
        clean = realised_volatility(day_of(returns))
        assert clean is not None
        wrong = [realised_volatility(day_of(returns, each, factor)) for each in range(25)]
        assert max(each or 0.0 for each in wrong) < 1.9 * clean


@pytest.mark.parametrize(("degrees", "allowed_pct"), [(1_000, 0.5), (4, 2.5)])
def test_volatility_of_clean_returns_is_nearly_unbiased(degrees: int, allowed_pct: float) -> None:
    chance, found, plain = Random(1), 0.0, 0.0
    for _ in range(1_000):
        returns = [
            chance.gauss(0, 0.006) / sqrt(chance.gammavariate(degrees / 2, 2 / degrees))
            for _ in range(24)
        ]
        found += (realised_volatility(day_of(returns)) or 0.0) ** 2
        plain += sum(each * each for each in returns) / 24 * 100**2 * 365 * 24

    assert 100 * abs(sqrt(found / plain) - 1) < allowed_pct


def test_a_move_that_stays_counts_in_full_once_the_next_hour_confirms_it() -> None:
    usual = [0.001 * (-1) ** number for number in range(24)]
    crash = [*usual[:10], -0.08, *usual[11:]]
    rebound = [*usual[:10], -0.08, 0.03, *usual[12:]]

    for returns in (crash, rebound):
        squares = sum(each * each for each in returns) / 24
        expected = 100 * sqrt(squares * 365 * 24)
        assert realised_volatility(day_of(returns)) == pytest.approx(expected)
    last = realised_volatility(day_of([*usual[:23], -0.08]))
    assert last == pytest.approx(100 * 0.001 * sqrt((23 + SPIKE**2) / 24 * 365 * 24))


@pytest.mark.thorough
@given(st.randoms(use_true_random=False), st.integers(0, 40 * 24), st.integers(-50, 50))
@settings(deadline=None, max_examples=25)
def test_compared_values_are_sorted(chance: Random, count: int, forgotten: int) -> None:
    trailing = TrailingRecord()
    trailing.liquidation_totals(95)  # asked for before there is any, as a rule may
    add_hours(
        trailing,
        count,
        price=lambda _: 100 + chance.randrange(5),
        share=lambda _: chance.choice([None, 50.0, 55.5, 61.25]),
    )
    for number in range(count):
        at, watched = AT - (count - number) * HOUR, chance.choice([90.0, 95.0, 100.0])
        trailing.add_liquidation_hour(closed(chance.randrange(9), watched, at))

    trailing.forget_after(AT - forgotten * HOUR)

    hours = trailing.hours("BTC")
    swings = [each.volatility_pct for each in hours if each.volatility_pct is not None]
    shares = [each.long_account_pct for each in hours if each.long_account_pct is not None]
    assert trailing.volatility("BTC") == sorted(swings)
    assert trailing.long_accounts("BTC") == sorted(shares)
    for bound in (95, 0):
        watched_hours = trailing.liquidation_hours(bound)
        totals = sorted(each.total_usd for each in watched_hours)
        assert trailing.liquidation_totals(bound) == totals


def test_a_gap_leaves_the_volatility_unknown_until_a_whole_day_has_passed() -> None:
    trailing = add_hours(TrailingRecord(), 48, until=AT - HOUR)
    for number in range(26):
        trailing.add_hour("BTC", hour(AT + number * HOUR))

    swings = [each.volatility_pct for each in trailing.hours("BTC", since=AT)]

    assert swings == [None] * 24 + [0.0, 0.0]


def test_open_interest_is_counted_in_coins() -> None:
    assert Hour(AT, 50.0, 1_000.0, None).open_interest_coins == 20.0
    assert Hour(AT, 50.0, 0.0, None).open_interest_coins == 0.0


@given(values, st.floats(-1e6, 1e6))
def test_a_percentile_counts_equal_values_half(known: list[float], value: float) -> None:
    for asked in (value, known[0]):
        lower = sum(each < asked for each in known)
        equal = sum(each == asked for each in known)
        assert percentile_rank(asked, sorted(known)) == 100 * (lower + equal / 2) / len(known)

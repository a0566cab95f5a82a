"""The record that rules look back on: in order, once, for 30 days, and nothing invented."""

from math import exp, isclose, sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.evidence import (
    TRAILING,
    FundingSettlement,
    Hour,
    TrailingRecord,
    change_pct,
    percentile_rank,
    realised_volatility,
)
from barograph.markets.liquidations import LiquidationHour
from support.evidence import AT, add_hours, add_liquidations, closed

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def hour(at: int, price: float = 100.0) -> Hour:
    return Hour(at, price, 5.0, None)


def settlement(at: int, rate: float = 0.01, contract: str = "BTCUSDT") -> FundingSettlement:
    return FundingSettlement(contract, at, rate, 8, at - 5_000)


def test_hours_come_in_order_and_once() -> None:
    trailing = TrailingRecord()
    for at, price in ((AT, 1.0), (AT + HOUR, 2.0), (AT + HOUR, 3.0), (AT - HOUR, 4.0)):
        trailing.add_hour("BTC", hour(at, price))

    assert [(each.at, each.last_price) for each in trailing.hours("BTC")] == [
        (AT, 1.0),
        (AT + HOUR, 2.0),
    ]


def test_hours_are_kept_for_exactly_30_days() -> None:
    trailing = add_hours(TrailingRecord(), 31 * 24)

    kept = trailing.hours("BTC")

    assert kept[-1].at - kept[0].at == TRAILING
    assert len(kept) == 30 * 24 + 1


def test_prices_are_kept_for_good_but_not_those_from_the_future() -> None:
    trailing = TrailingRecord()
    trailing.add_price("BTC", AT - 32 * DAY, 99.0)
    add_hours(trailing, 31 * 24)

    trailing.forget_after(AT - 2 * HOUR)

    kept = list(trailing.prices("BTC"))
    assert kept[0] == (AT - 32 * DAY, 99.0)
    assert kept[-1] == (AT - 2 * HOUR, 100.0)
    assert len(kept) == 31 * 24


def test_majors_do_not_stand_in_each_others_way() -> None:
    trailing = TrailingRecord()
    trailing.add_hour("BTC", hour(AT))
    trailing.add_hour("ETH", hour(AT - HOUR))

    assert [each.at for each in trailing.hours("ETH")] == [AT - HOUR]
    assert list(trailing.hours("SOL")) == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (-HOUR // 2 - 1, 0),
        (-HOUR // 2, 1),
        (0, 1),
        (HOUR // 2 - 1, 1),
        (HOUR // 2, None),
        (HOUR, None),
        (2 * HOUR - 1, 2),
    ],
)
def test_the_full_hour_nearest_to_an_instant_is_found_and_no_other(
    asked: int, found: int | None
) -> None:
    trailing = TrailingRecord()
    for at in (AT - HOUR, AT, AT + 2 * HOUR):
        trailing.add_hour("BTC", hour(at))

    expected = None if found is None else trailing.hours("BTC")[found]
    assert trailing.hour_at("BTC", AT + asked) == expected


def test_hours_from_an_instant_on_include_it() -> None:
    trailing = add_hours(TrailingRecord(), 3)

    assert [each.at for each in trailing.hours("BTC", since=AT - 2 * HOUR)] == [
        AT - 2 * HOUR,
        AT - HOUR,
    ]
    assert list(trailing.hours("BTC", since=AT)) == []


def test_liquidation_hours_come_in_order_once_and_for_30_days() -> None:
    trailing = add_liquidations(TrailingRecord(), 31 * 24)
    trailing.add_liquidation_hour(closed(9.0, at=AT - 2 * HOUR))
    trailing.add_liquidation_hour(closed(9.0, at=AT - 5 * HOUR))

    kept = trailing.liquidation_hours(95)

    assert kept[-1] == closed(31 * 24 - 1, at=AT - 2 * HOUR)
    assert kept[-1].at - kept[0].at == TRAILING
    assert trailing.newest_liquidation_hour == AT - 2 * HOUR


def test_only_hours_that_were_watched_enough_are_compared_with() -> None:
    trailing = TrailingRecord()
    for number, watched in enumerate((94.99, 95.0, 0.0, 100.0)):
        trailing.add_liquidation_hour(LiquidationHour(AT + number * HOUR, 1.0, 1.0, watched))

    assert [each.watched_pct for each in trailing.liquidation_hours(95)] == [95.0, 100.0]
    assert len(trailing.liquidation_hours(0)) == 4


def test_the_newest_settlement_of_a_contract_is_kept_in_whatever_order_they_come() -> None:
    trailing = TrailingRecord()
    for at in (AT, AT + 8 * HOUR, AT - 8 * HOUR):
        trailing.add_settlement(settlement(at))
    trailing.add_settlement(settlement(AT, contract="ETHUSDT"))

    assert trailing.settled("BTCUSDT") == settlement(AT + 8 * HOUR)
    assert trailing.settled("ETHUSDT") == settlement(AT, contract="ETHUSDT")
    assert trailing.settled("SOLUSDT") is None


def test_the_newest_settlement_with_a_sign_is_kept_next_to_the_newest() -> None:
    trailing = TrailingRecord()
    assert trailing.settled_with_a_sign("BTCUSDT") is None
    for number, rate in enumerate((0.0, 0.02, -0.01, 0.0, 0.0)):
        trailing.add_settlement(settlement(AT + number * HOUR, rate))
    trailing.add_settlement(settlement(AT, 0.0, "ETHUSDT"))

    assert trailing.settled("BTCUSDT") == settlement(AT + 4 * HOUR, 0.0)
    assert trailing.settled_with_a_sign("BTCUSDT") == settlement(AT + 2 * HOUR, -0.01)
    assert trailing.settled_with_a_sign("ETHUSDT") is None


def test_what_a_clock_ahead_of_time_added_is_dropped_when_it_is_set_back() -> None:
    trailing = TrailingRecord()
    for at in (AT, AT + 365 * DAY):
        trailing.add_settlement(settlement(at, contract=f"at {at}"))
    trailing.add_hour("BTC", hour(AT + 365 * DAY))
    trailing.add_liquidation_hour(closed(1.0, at=AT + 365 * DAY))

    trailing.forget_after(AT)
    trailing.add_hour("BTC", hour(AT))
    trailing.add_liquidation_hour(closed(2.0, at=AT))

    assert [each.at for each in trailing.hours("BTC")] == [AT]
    assert trailing.liquidation_hours(0) == [closed(2.0, at=AT)]
    assert trailing.settled(f"at {AT}") is not None
    assert trailing.settled(f"at {AT + 365 * DAY}") is None
    assert trailing.settled_with_a_sign(f"at {AT}") is not None
    assert trailing.settled_with_a_sign(f"at {AT + 365 * DAY}") is None


def test_volatility_is_that_of_24_hourly_returns_over_a_year() -> None:
    prices = [100 * exp(0.01 * (number % 2)) for number in range(25)]
    hours = [hour(AT + number * HOUR, price) for number, price in enumerate(prices)]

    swing = realised_volatility(hours)

    assert swing is not None
    assert isclose(swing, 100 * 0.01 * sqrt(365 * 24))


def test_volatility_of_a_price_that_stands_still_is_zero_and_not_unknown() -> None:
    assert realised_volatility([hour(AT + number * HOUR) for number in range(25)]) == 0.0
    assert add_hours(TrailingRecord(), 26).volatility("BTC") == [0.0, 0.0]


@pytest.mark.thorough
@given(st.randoms(use_true_random=False), st.integers(0, 40 * 24), st.integers(-50, 50))
@settings(deadline=None, max_examples=25)
def test_what_hours_are_compared_by_is_in_order_however_they_come_and_go(
    chance: Random, count: int, forgotten: int
) -> None:
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


@pytest.mark.parametrize("missing", [0, 1, 12, 24])
def test_volatility_is_unknown_when_an_hour_of_the_day_is_missing(missing: int) -> None:
    hours = [hour(AT + number * HOUR) for number in range(25) if number != missing]

    assert realised_volatility(hours) is None


def test_a_gap_leaves_the_volatility_unknown_until_a_whole_day_has_passed() -> None:
    trailing = add_hours(TrailingRecord(), 48, until=AT - HOUR)
    for number in range(26):
        trailing.add_hour("BTC", hour(AT + number * HOUR))

    swings = [each.volatility_pct for each in trailing.hours("BTC", since=AT)]

    assert swings == [None] * 24 + [0.0, 0.0]


def test_open_interest_is_counted_in_coins() -> None:
    assert Hour(AT, 50.0, 1_000.0, None).open_interest_coins == 20.0
    assert Hour(AT, 50.0, 0.0, None).open_interest_coins == 0.0


@pytest.mark.parametrize(
    ("value", "known", "rank"),
    [
        (2, [1, 2, 3], 50.0),
        (0, [1, 2, 3], 0.0),
        (4, [1, 2, 3], 100.0),
        (3, [1, 2, 3, 3], 75.0),
        (0, [0, 0], 50.0),
        (1, [1], 50.0),
    ],
)
def test_a_percentile_counts_ties_half(value: float, known: list[float], rank: float) -> None:
    assert percentile_rank(value, known) == rank


@given(values, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_percentile_lies_between_0_and_100_and_grows_with_the_value(
    known: list[float], one: float, other: float
) -> None:
    low, high = (percentile_rank(each, sorted(known)) for each in sorted((one, other)))

    assert 0 <= low <= high <= 100


@given(values, st.floats(-1e6, 1e6))
def test_a_percentile_is_the_share_of_lower_values_and_half_of_equal_ones(
    known: list[float], value: float
) -> None:
    for asked in (value, known[0]):
        lower = sum(each < asked for each in known)
        equal = sum(each == asked for each in known)
        assert percentile_rank(asked, sorted(known)) == 100 * (lower + equal / 2) / len(known)


@pytest.mark.parametrize(
    ("before", "after", "pct"),
    [(100, 108, 8.0), (100, 92, -8.0), (100, 101, 1.0), (100, 95, -5.0), (4, 0, -100.0)],
)
def test_a_change_in_percent_is_exact_where_it_can_be(
    before: float, after: float, pct: float
) -> None:
    assert change_pct(before, after) == pct

"""Which days daily series are published for."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.business_days import (
    business_days,
    is_business_day,
    next_business_day,
    next_trading_day,
    trading_days,
)

CLOSED_2025 = "01-01 01-20 02-17 04-18 05-26 06-19 07-04 09-01 10-13 11-11 11-27 12-25"
CLOSED_2026 = "01-01 01-19 02-16 05-25 06-19 07-03 09-07 10-12 11-11 11-26 12-25"

days = st.dates(date(1990, 1, 1), date(2090, 12, 31))


@pytest.mark.parametrize(("year", "closed"), [(2025, CLOSED_2025), (2026, CLOSED_2026)])
def test_weekdays_without_publication_are_those_of_the_bond_market(year: int, closed: str) -> None:
    weekdays = (date(year, 1, 1) + timedelta(days=number) for number in range(365))

    found = [day for day in weekdays if day.weekday() < 5 and not is_business_day(day)]

    assert found == [date.fromisoformat(f"{year}-{day}") for day in closed.split()]


@pytest.mark.parametrize(
    "good_friday",
    ["2000-04-21", "2008-03-21", "2011-04-22", "2019-04-19", "2024-03-29", "2027-03-26"],
)
def test_good_friday_follows_the_moon(good_friday: str) -> None:
    day = date.fromisoformat(good_friday)

    assert not is_business_day(day)
    assert is_business_day(day - timedelta(days=1))
    assert next_business_day(day) == day + timedelta(days=3)


@pytest.mark.parametrize(
    ("holiday", "is_open"),
    [
        ("2021-07-05", False),  # the fourth was a Sunday
        ("2020-07-03", False),  # the fourth was a Saturday
        ("2021-12-24", False),  # Christmas was a Saturday
        ("2021-12-31", True),  # New Year's Day was a Saturday, but of another year
        ("2023-01-02", False),  # New Year's Day was a Sunday
        ("2020-06-19", True),  # not a holiday yet
        ("2023-04-07", True),  # Good Friday, but bonds traded until noon after the jobs report
    ],
)
def test_a_weekend_holiday_is_kept_on_the_nearest_weekday(holiday: str, is_open: bool) -> None:
    assert is_business_day(date.fromisoformat(holiday)) is is_open


@given(days)
def test_the_next_business_day_is_the_first_one_after(day: date) -> None:
    following = next_business_day(day)

    assert day < following <= day + timedelta(days=5)
    assert list(business_days(day + timedelta(days=1), following)) == [following]


@given(days, st.integers(0, 400))
def test_business_days_are_exactly_those_between_both_ends(first: date, length: int) -> None:
    last = first + timedelta(days=length)

    found = list(business_days(first, last))

    assert found == sorted(set(found))
    assert all(first <= day <= last and day.weekday() < 5 for day in found)
    assert sum(is_business_day(first + timedelta(days=n)) for n in range(length + 1)) == len(found)


@pytest.mark.parametrize(("year", "closed"), [(2025, CLOSED_2025), (2026, CLOSED_2026)])
def test_funds_trade_on_columbus_day_and_veterans_day(year: int, closed: str) -> None:
    last = date(year, 12, 31)
    open_days = set(trading_days(date(year, 1, 1), last))

    assert {f"{each:%m-%d}" for each in open_days - set(business_days(date(year, 1, 1), last))} == {
        each for each in closed.split() if each.startswith(("10-", "11-11"))
    }
    assert all(list(trading_days(each, each)) for each in open_days)


def test_the_next_trading_day_skips_what_the_exchanges_skip() -> None:
    assert next_trading_day(date(2026, 11, 10)) == date(2026, 11, 11)
    assert next_trading_day(date(2026, 11, 25)) == date(2026, 11, 27)


@pytest.mark.parametrize(
    ("closing", "bonds_rest"), [("2018-12-05", True), ("2025-01-09", False), ("2012-10-29", False)]
)
def test_unscheduled_closings_are_no_trading_days(closing: str, bonds_rest: bool) -> None:
    day = date.fromisoformat(closing)

    assert not list(trading_days(day, day))
    assert day not in set(trading_days(day - timedelta(days=3), day + timedelta(days=3)))
    assert is_business_day(day) is not bonds_rest

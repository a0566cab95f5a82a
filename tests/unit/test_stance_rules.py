"""When a stance ends, how recent its data must be, and conditions: true, false or unknown."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.business_days import is_business_day
from barograph.kit.json import Json
from barograph.kit.timestamps import HOUR, iso_timestamp
from barograph.macro.evidence import is_recent
from barograph.stances.rules import condition, day_period, expires_after, is_met

DAYS = st.dates(date(2020, 1, 1), date(2040, 12, 31))


@pytest.mark.parametrize(
    ("day", "lag", "expires"),
    [
        ("2026-11-05", 0, "2026-11-06"),
        ("2026-11-06", 0, "2026-11-09"),
        ("2026-11-10", 0, "2026-11-12"),
        ("2026-11-11", 0, "2026-11-12"),
        ("2026-11-25", 0, "2026-11-27"),
        ("2026-12-24", 0, "2026-12-28"),
        ("2026-12-31", 0, "2027-01-04"),
        ("2026-09-04", 0, "2026-09-08"),
        ("2027-01-15", 0, "2027-01-19"),
        ("2026-11-05", 1, "2026-11-09"),
        ("2026-11-09", 1, "2026-11-12"),
    ],
)
def test_it_ends_when_the_next_business_days_data_was_due(day: str, lag: int, expires: str) -> None:
    assert iso_timestamp(expires_after(day, 0, lag=lag)) == f"{expires}T23:59:59.000Z"
    assert expires_after(day, 6 * HOUR, lag=lag) == expires_after(day, 0, lag=lag) + 6 * HOUR


@given(day=DAYS, lag=st.integers(0, 2))
def test_it_ends_on_a_business_day_after_its_own_and_before_long(day: date, lag: int) -> None:
    end = expires_after(day.isoformat(), 0, lag=lag)
    ends_on = datetime.fromtimestamp(end / 1000, UTC).date()

    assert is_business_day(ends_on)
    assert timedelta() < ends_on - day <= timedelta(days=5 + 4 * lag)
    assert expires_after((day + timedelta(days=1)).isoformat(), 0, lag=lag) >= end


def test_a_data_day_starts_and_ends_at_midnight() -> None:
    assert day_period("2026-12-31") == {
        "start": "2026-12-31T00:00:00.000Z",
        "end": "2027-01-01T00:00:00.000Z",
    }


@pytest.mark.parametrize(
    ("day", "today", "recent"),
    [
        ("2026-11-06", "2026-11-06", True),
        ("2026-11-06", "2026-11-08", True),
        ("2026-11-06", "2026-11-10", True),
        ("2026-11-06", "2026-11-11", True),
        ("2026-11-06", "2026-11-12", False),
        ("2026-11-11", "2026-11-13", True),
        ("2026-11-11", "2026-11-16", False),
        ("2026-11-09", "2026-11-06", False),
        ("2020-01-02", "2026-11-06", False),
    ],
)
def test_two_business_days_may_pass_and_no_more(day: str, today: str, recent: bool) -> None:
    assert is_recent(day, date.fromisoformat(today)) is recent


@given(day=DAYS, later=st.integers(0, 400))
def test_recency_only_ever_goes_away(day: date, later: int) -> None:
    today = day + timedelta(days=later)

    if is_recent(day.isoformat(), today + timedelta(days=1)):
        assert is_recent(day.isoformat(), today)
    assert later <= 7 or not is_recent(day.isoformat(), today)


DEEP = condition("inverted", "levels.slope", "<=", -0.05)
HIGH = condition("high", "levels.rate", ">=", 0.03)
NO_NUMBERS: list[Json] = [None, "0.05", True, [], {}]


@pytest.mark.parametrize(
    ("given_condition", "levels", "met"),
    [
        (DEEP, {"slope": -0.05}, True),
        (DEEP, {"slope": -0.0499}, False),
        (DEEP, {"slope": 0}, False),
        (HIGH, {"rate": 0.03}, True),
        (HIGH, {"rate": -1}, False),
        (condition("not below zero", "levels.rate", ">=", 0), {"rate": 0}, True),
        (condition("not below zero", "levels.rate", ">=", 0), {"rate": -0.0}, True),
        *((HIGH, {"rate": level}, None) for level in NO_NUMBERS),
        (HIGH, {}, None),
        (HIGH, {"levels.rate": 1.0}, None),
    ],
)
def test_a_condition_is_met_or_not_or_open_without_a_number(
    given_condition: Json, levels: dict[str, Json], met: bool | None
) -> None:
    assert is_met(given_condition, levels) is met


@pytest.mark.parametrize(
    "other",
    [
        "levels.rate >= 0.03: longs pay heavily",
        None,
        [],
        {},
        {"text": "x", "path": "levels.rate", "compare": ">", "value": 1},
        {"text": "x", "path": "levels.rate", "compare": ">=", "value": "1"},
        {"text": "x", "path": "levels.rate", "compare": ">=", "value": True},
        {"text": "x", "path": None, "compare": ">=", "value": 1},
        {"text": "x", "compare": ">=", "value": 1},
    ],
)
def test_something_that_is_no_such_condition_leaves_it_open(other: Json) -> None:
    assert is_met(other, {"rate": 1.0}) is None


def test_only_comparisons_that_can_be_evaluated_are_made() -> None:
    with pytest.raises(ValueError, match=">=, <="):
        condition("above", "levels.rate", ">", 1)


_ANY: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.mark.thorough
@given(
    anything=_ANY
    | st.fixed_dictionaries({"path": _ANY, "compare": st.sampled_from([">=", "<="]), "value": _ANY})
)
def test_whatever_was_recorded_evaluation_does_not_fail(anything: Json) -> None:
    assert is_met(anything, {"rate": 1.0}) in {True, False, None}

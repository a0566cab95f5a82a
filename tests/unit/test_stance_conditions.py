"""Conditions: true, false, or not to be known."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.json import Json
from barograph.stances.rules import condition, is_met

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

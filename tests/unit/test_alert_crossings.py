"""Crossings: once per crossing, with the hysteresis that the rule states."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.alerts.crossings import next_state
from barograph.alerts.rules import Rule, When, sentence

VALUES = st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=60)


def firings(rule: Rule, values: Sequence[float]) -> list[int]:
    """The places of the values that fire."""
    is_met, places = None, []
    for place, value in enumerate(values):
        is_met, fires = next_state(rule, is_met, value)
        if fires:
            places.append(place)
    return places


@given(VALUES)
def test_above_fires_exactly_once_between_two_returns(values: list[float]) -> None:
    rule = Rule("funding", ("BTC",), "any", "above", 0.05)
    expected, is_armed = [], values[0] <= rule.limit
    for place, value in enumerate(values[1:], 1):
        if is_armed and value > rule.limit:
            expected.append(place)
            is_armed = False
        elif value < rule.back:
            is_armed = True
    assert firings(rule, values) == expected


@given(VALUES)
def test_below_is_above_upside_down(values: list[float]) -> None:
    above = Rule("funding", ("BTC",), "any", "above", 0.05)
    below = Rule("funding", ("BTC",), "any", "below", -0.05)
    assert firings(below, [-value for value in values]) == firings(above, values)


@given(VALUES)
def test_crosses_fires_on_the_way_up_and_down_in_turn(values: list[float]) -> None:
    both = Rule("funding", ("BTC",), "any", "crosses", 0.05)
    above = Rule("funding", ("BTC",), "any", "above", 0.05)
    up = firings(above, values)
    down = [place for place in firings(both, values) if place not in up]
    assert {*up} <= {*firings(both, values)}
    assert all(values[place] < both.back for place in down)
    assert abs(len(up) - len(down)) <= 1


@pytest.mark.parametrize(
    ("when", "values", "expected"),
    [
        ("rises", [0.0, 4.9, 5.0, 4.95, 5.1, 4.8, 5.0, -9.0], [2, 6]),
        ("falls", [0.0, 9.0, -4.9, -5.0, -4.95, -5.2, 0.0, -6.0], [3, 7]),
        ("changes", [0.0, 5.0, 0.0, -5.0, -4.95, 5.0], [1, 3]),
    ],
)
def test_changes_fire_at_their_limit_and_again_after_a_smaller_change(
    when: When, values: list[float], expected: list[int]
) -> None:
    rule = Rule("price", ("BTC",), "any", when, 5.0, "1h")
    assert firings(rule, values) == expected


def test_the_sentence_states_the_value_at_which_a_rule_can_fire_again() -> None:
    rule = Rule("funding", ("BTC",), "any", "above", 0.05)
    assert firings(rule, [0.0, 0.06, 0.0491, 0.06, 0.0489, 0.06]) == [1, 5]
    assert "once the value has fallen below 0.0490 % per 8 h" in sentence(rule)

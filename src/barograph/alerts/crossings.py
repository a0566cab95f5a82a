"""When a value crosses the limit of a rule, with hysteresis (pure)."""

from typing import NamedTuple

from barograph.alerts.rules import Rule, When


class Bounds(NamedTuple):
    """A rule is met from `on`, and stays met down to `back`, by the sizes of its values."""

    on: float
    back: float


def size(when: When, value: float) -> float:
    """A value such that larger ones meet a rule: a fall counts as a positive number."""
    if when == "changes":
        return abs(value)
    return -value if when in {"below", "falls"} else value


def bounds(rule: Rule) -> Bounds:
    """The bounds of a rule that has a value."""
    sign = -1 if rule.when == "below" else 1
    return Bounds(sign * rule.limit, sign * rule.back)


def next_state(rule: Rule, was_met: bool | None, value: float) -> tuple[bool, bool]:
    """Whether the rule is met now, and whether it fires; a first value (None) never fires.

    A level is met beyond its limit, and a change at its limit. `crosses` fires in both directions.
    """
    (on, back), seen = bounds(rule), size(rule.when, value)
    is_met = seen > on or (rule.is_about_change and seen == on) or (bool(was_met) and seen >= back)
    fires = was_met is not None and is_met != was_met and (is_met or rule.when == "crosses")
    return is_met, fires

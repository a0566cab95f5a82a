"""Conditions that would change a stance, in words and so that they can be evaluated (pure)."""

from collections.abc import Mapping
from operator import ge, le

from barograph.kit.canonical import Json

_COMPARE = {">=": ge, "<=": le}


def condition(text: str, path: str, compare: str, value: float) -> Json:
    """A condition on one level, such as `levels.slope10y3m <= -0.05`."""
    if compare not in _COMPARE:
        raise ValueError(f"one of {', '.join(_COMPARE)} is needed")
    return {"text": text, "path": path, "compare": compare, "value": value}


def is_met(given: Json, levels: Mapping[str, Json]) -> bool | None:
    """Whether a condition holds for these levels; None when that cannot be known."""
    if not isinstance(given, Mapping):
        return None
    level = _number(levels.get(str(given.get("path", "")).removeprefix("levels.")))
    compare, value = _COMPARE.get(str(given.get("compare"))), _number(given.get("value"))
    if compare is None or level is None or value is None:
        return None
    return bool(compare(level, value))


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)

"""What the rules of the three kinds share: conditions, data days and expiry (pure).

A stance about a data day expires when the next business day's data is due, so Friday's rates do
not expire at the weekend.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from operator import ge, le

from barograph.kit.business_days import next_business_day
from barograph.kit.json import Json
from barograph.kit.timestamps import DAY, SECOND, iso_timestamp
from barograph.macro.evidence import day_start

BY = "rule"
"""The name that rules sign decisions with."""

PUBLISHED_BY = time(23, 59, 59)
"""The latest time, in UTC, at which a day's data is usually published."""

_COMPARE = {">=": ge, "<=": le}


def condition(text: str, path: str, compare: str, value: float) -> Json:
    """A condition on one level, such as `levels.slope10y3m <= -0.05`."""
    if compare not in _COMPARE:
        raise ValueError(f"compare must be one of {', '.join(_COMPARE)}")
    return {"text": text, "path": path, "compare": compare, "value": value}


def is_met(given: Json, levels: Mapping[str, Json]) -> bool | None:
    """Whether a condition holds for these levels; None when that is unknown."""
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


def day_period(day: str) -> dict[str, str]:
    """The period of a leg that is one data day."""
    start = day_start(day)
    return {"start": iso_timestamp(start), "end": iso_timestamp(start + DAY)}


def expires_after(
    day: str, grace: int, *, lag: int = 0, following: Callable[[date], date] = next_business_day
) -> int:
    """When a stance about `day` expires: when data of the next day is due, plus `grace`.

    `following` returns the next day of the calendar; data is published `lag` such days late.
    """
    due = following(date.fromisoformat(day))
    for _ in range(lag):
        due = following(due)
    return int(datetime.combine(due, PUBLISHED_BY, UTC).timestamp()) * SECOND + grace

"""Until when a stance about a data day holds (pure).

It ends when the data of the next US business day should have been published; a weekend or a holiday
does not expire Friday's rates.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from operator import ge, le

from barograph.kit.business_days import next_business_day
from barograph.kit.json import Json
from barograph.kit.timestamps import SECOND, iso_timestamp

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


PUBLISHED_BY = time(23, 59, 59)
"""The latest hour, in UTC, at which a day's data is usually there."""


def day_start(day: str, *, following: bool = False) -> str:
    """The start of a data day, or of the one after it, as a timestamp."""
    start = date.fromisoformat(day) + timedelta(days=1 if following else 0)
    return iso_timestamp(_milliseconds(datetime.combine(start, time(), UTC)))


def day_period(day: str) -> dict[str, str]:
    """The period of a leg that is one data day."""
    return {"start": day_start(day), "end": day_start(day, following=True)}


def expires_after(
    day: str, grace: int, *, lag: int = 0, following: Callable[[date], date] = next_business_day
) -> int:
    """When a stance about `day` expires: once data of the day after it was due, plus grace.

    Days are those of a calendar, which tells the one `following` another. `lag` is how many of
    them after its own day data is published.
    """
    due = following(date.fromisoformat(day))
    for _ in range(lag):
        due = following(due)
    return _milliseconds(datetime.combine(due, PUBLISHED_BY, UTC)) + grace


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND

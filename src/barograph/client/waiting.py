"""When to come again, as an answer says it (pure)."""

import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import time_ns

Clock = Callable[[], int]
"""Returns the present in whole milliseconds since the Unix epoch."""

TOO_MANY_REQUESTS = 429

_DIGITS = re.compile("[0-9]{1,9}")
_LEFT = re.compile("; *r=([0-9]{1,9})(?![0-9])")
_RESETS = re.compile("; *t=([0-9]{1,9})(?![0-9])")


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000


def seconds_asked_for(status: int, headers: Mapping[str, str], now: int) -> float | None:
    """The seconds to wait by `Retry-After`, else by `RateLimit` of a refusal; None if none."""
    told = headers.get("retry-after", "").strip()
    if _DIGITS.fullmatch(told):
        return float(told)
    if told:
        return _until(told, now)
    return _until_reset(headers.get("ratelimit", "")) if status == TOO_MANY_REQUESTS else None


def _until(date: str, now: int) -> float | None:
    try:
        then = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - now / 1_000)


def _until_reset(field: str) -> float | None:
    """The longest reset among the allowances that are spent."""
    resets = [
        float(found.group(1))
        for item in field.split(",")
        if (left := _LEFT.search(item)) and int(left.group(1)) == 0
        if (found := _RESETS.search(item))
    ]
    return max(resets, default=None)

"""Time comes from here, passed in, so that a test or a replay can hold the hand of the clock."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from time import time_ns

Clock = Callable[[], int]
"""Returns the present in whole milliseconds since the Unix epoch."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000


def iso_timestamp(at: int) -> str:
    """Format milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % SECOND:03d}Z"


def http_date(at: int) -> str:
    """Format milliseconds as an HTTP date; parts of a second are cut off."""
    return formatdate(at // SECOND, usegmt=True)

"""The clock, which is passed in, so that tests and replays can set the time."""

from collections.abc import Callable
from time import time_ns

Clock = Callable[[], int]
"""Returns the current time in whole milliseconds since the Unix epoch."""


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000

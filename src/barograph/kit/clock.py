"""Time comes from here, passed in, so that a test or a replay can hold the hand of the clock."""

from collections.abc import Callable
from time import time_ns

Clock = Callable[[], int]
"""Returns the present in whole milliseconds since the Unix epoch."""


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000

"""A manual clock."""

START = 1_794_000_000_000
"""2026-11-06T21:20:00.000Z: a full minute, not a full hour."""


class HandClock:
    """Milliseconds that only a test advances."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

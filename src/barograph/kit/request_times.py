"""Measures requests by route and status."""

from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter

from barograph.kit.documents import Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.metrics import BOUNDS, REQUEST_SECONDS, Metrics, Numbers

FIRST_BOUND = BOUNDS[0]
MAX_PATHS = 4_096
LONGEST_PATH = 255
"""Longer paths are not remembered, because callers choose paths."""

Observe = Callable[[str, int, float], None]
"""Adds one request: its path, its status, and when it started."""


def request_observer(metrics: Metrics, route_of: Callable[[str], str]) -> Observe:
    """Returns what adds requests to the metrics; `route_of` finds the template of a path's route.

    Hot reads pay for it, so it makes no call that it can avoid.
    """
    known: dict[tuple[str, int], Numbers] = {}

    def find(path: str, status: int) -> Numbers:
        times = metrics.numbers(REQUEST_SECONDS, route_of(path), str(status))
        if len(known) >= MAX_PATHS:
            known.clear()
        if len(path) <= LONGEST_PATH:
            known[path, status] = times
        return times

    def observe(path: str, status: int, started: float) -> None:
        seconds = perf_counter() - started
        times = known.get((path, status)) or find(path, status)
        times[0] += seconds
        times[1 if seconds <= FIRST_BOUND else bisect_left(BOUNDS, seconds) + 1] += 1

    return observe


def measured(app: ASGIApp, observe: Observe) -> ASGIApp:
    """Measure every request to an application until its response begins."""

    async def measure(scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.start":
                observe(scope["path"], message["status"], started)
            await send(message)

        await app(scope, receive, forward)

    return measure

"""Measures requests by route and status."""

from collections.abc import Callable
from time import perf_counter

from barograph.kit.documents import Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.metrics import REQUEST_SECONDS, Metrics, Numbers, add

MAX_PATHS = 4_096
LONGEST_PATH = 255
"""Longer paths are not remembered, because callers choose paths."""


class RequestTimes:
    """The durations of requests by route and status; `route_of` finds the route of a path."""

    def __init__(self, metrics: Metrics, route_of: Callable[[str], str]) -> None:
        self._metrics = metrics
        self._route_of = route_of
        self._known: dict[tuple[str, int], Numbers] = {}

    def of(self, path: str, status: int) -> Numbers:
        """Where to add the durations of these requests, with `add`."""
        times = self._known.get((path, status))
        if times is None:
            times = self._metrics.numbers(REQUEST_SECONDS, self._route_of(path), str(status))
            if len(self._known) >= MAX_PATHS:
                self._known.clear()
            if len(path) <= LONGEST_PATH:
                self._known[path, status] = times
        return times


def measured(app: ASGIApp, times: RequestTimes) -> ASGIApp:
    """Measure every request to an application until its response begins."""

    async def measure(scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.start":
                add(times.of(scope["path"], message["status"]), perf_counter() - started)
            await send(message)

        await app(scope, receive, forward)

    return measure

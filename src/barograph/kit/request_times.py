"""Measures requests by route and status."""

from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

from barograph.kit.documents import Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.metrics import REQUEST_SECONDS, Metrics, Numbers, observe

MAX_PATHS = 4_096


class RequestTimes:
    """The times of all requests that a worker answers."""

    def __init__(self, metrics: Metrics, route_of: Callable[[str], str]) -> None:
        """`route_of` returns the template of the route of a path."""

        @lru_cache(MAX_PATHS)
        def find(path: str, status: int | None) -> Numbers:
            # A client that left before the response began has no status.
            word = "none" if status is None else str(status)
            return metrics.times_of(REQUEST_SECONDS, route_of(path), word)

        self._find = find
        self.hot: dict[str, Numbers] = {}
        """By path, the histogram of hot reads."""

    def observe(self, path: str, status: int | None, started: float) -> None:
        """Add one request."""
        observe(self._find(path, status), perf_counter() - started)

    def observe_hot(self, path: str, started: float) -> None:
        """Add one hot read, and remember its histogram."""
        if len(self.hot) < MAX_PATHS:
            self.hot[path] = self._find(path, 200)
        self.observe(path, 200, started)

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Measure every request to an application until its response begins."""

        async def measure(scope: Scope, receive: Receive, send: Send) -> None:
            started = perf_counter()
            status: int | None = None

            async def forward(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    self.observe(scope["path"], status, started)
                await send(message)

            try:
                await app(scope, receive, forward)
            finally:
                if status is None and scope["type"] == "http":
                    self.observe(scope["path"], None, started)

        return measure

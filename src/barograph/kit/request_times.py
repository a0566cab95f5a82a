"""Measures requests by route and status."""

from collections.abc import Awaitable, Callable
from time import perf_counter

from barograph.kit.documents import Message
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.metrics import BOUNDS, REQUEST_SECONDS, Metrics, Numbers, observe

NO_RESPONSE = "none"
"""The status of a request whose client left before the response began."""

MAX_PATHS = 4_096

HotAnswer = Callable[[Scope, Receive, Send], Awaitable[int | None]]
"""Answers a hot read and returns its status, or passes the request on and returns None."""


class RequestTimes:
    """The times of all requests that a worker answers."""

    def __init__(self, metrics: Metrics, route_of: Callable[[str], str]) -> None:
        """`route_of` returns the template of the route of a path."""
        self._metrics = metrics
        self._route_of = route_of
        self._hot: dict[str, Numbers] = {}

    def measured_hot(self, answer: HotAnswer) -> ASGIApp:
        """Measure hot reads, with one lookup and two additions for each."""
        hot, first_bound = self._hot, BOUNDS[0]

        async def measure(scope: Scope, receive: Receive, send: Send) -> None:
            started = perf_counter()
            status = await answer(scope, receive, send)
            if status == 200:  # noqa: PLR2004
                seconds = perf_counter() - started
                times = hot.get(scope["path"]) or self._remember(scope["path"])
                if seconds <= first_bound:
                    times[0] += seconds
                    times[1] += 1
                else:
                    observe(times, seconds)
            elif status is not None:
                self._observe(scope["path"], str(status), started)

        return measure

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Measure every request to an application until its response begins."""

        async def measure(scope: Scope, receive: Receive, send: Send) -> None:
            started, status = perf_counter(), NO_RESPONSE

            async def forward(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = str(message["status"])
                    self._observe(scope["path"], status, started)
                await send(message)

            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            try:
                await app(scope, receive, forward)
            finally:
                if status == NO_RESPONSE:
                    self._observe(scope["path"], status, started)

        return measure

    def _remember(self, path: str) -> Numbers:
        if len(self._hot) >= MAX_PATHS:
            self._hot.clear()
        times = self._hot[path] = self._find(path, "200")
        return times

    def _observe(self, path: str, status: str, started: float) -> None:
        observe(self._find(path, status), perf_counter() - started)

    def _find(self, path: str, status: str) -> Numbers:
        return self._metrics.times_of(REQUEST_SECONDS, self._route_of(path), status)

"""REST calls to the exchange: timeouts, retries with backoff, and circuit breakers.

If the exchange hangs, each attempt times out after at most half of the call's time budget
(`request_seconds`). The call is retried until the budget is spent, and then raises `Unreachable`.
After four failed calls in a row the endpoint's circuit breaker opens: further calls fail at once,
and one call per pause tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Literal, TypeVar

import httpx2

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from barograph.upstream.bybit.wire import Envelope, HttpReply, open_envelope
from barograph.upstream.http import Retries, Sleep, TimeBudget, read_body, tls_context

log = logging.getLogger(__name__)

T = TypeVar("T")
Endpoint = Literal["time", "instruments-info", "tickers", "account-ratio", "funding/history"]

MAX_REPLY_BYTES = 16 * 1024 * 1024
"""All tickers take about 0.6 MB."""

FAILURES_TO_OPEN = 4
"""This many failed calls in a row open a circuit breaker."""

REFUSED_SECONDS = 60.0
"""How long to wait after the exchange refused to serve us."""

_LONGEST = 6
_RETRIES = Retries(attempts=4, first_backoff=0.2, failures=(Unreachable, InvalidReply))


class CircuitBreaker:
    """Stops calls to a failing exchange for a while.

    Closed, it lets every call through. Open, it raises the last failure at once. After the pause it
    lets one call through: success closes the breaker, failure opens it for twice as long, up to six
    times the first pause.
    """

    def __init__(
        self, clock: Clock, first_pause_seconds: float, kinds: tuple[type[UpstreamError], ...]
    ) -> None:
        """`kinds` are the failures that count."""
        self._clock = clock
        self._first_pause = first_pause_seconds
        self._kinds = kinds
        self._failures = 0
        self._failure: UpstreamError | None = None
        self._pause = 0
        self._until = 0
        self._trying = False

    def check(self) -> None:
        """Raise the last failure if no call may be made now."""
        if self._failure is not None and (self._trying or self._left() > 0):
            raise _again(self._failure, self._left() / SECOND)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wrap one call and learn from its outcome; raises as `check` does."""
        self.check()
        tries = self._trying = self._failure is not None
        try:
            yield
        except UpstreamError as error:
            if isinstance(error, self._kinds):
                self._failed(error)
            else:
                self._succeeded()
            raise
        else:
            self._succeeded()
        finally:
            # A cancelled call proves nothing, so the next one may try.
            if tries:
                self._trying = False

    def _succeeded(self) -> None:
        # A call that began before the breaker opened does not close it.
        if self._left() == 0:
            self._failures = 0
            self._failure = None

    def _failed(self, error: UpstreamError) -> None:
        left = self._left()
        if left == 0:
            self._failures += 1
        pause = round(self._pause_after(error) * SECOND)
        if pause > left:
            self._failure, self._pause = _plain(error), pause
            self._until = self._clock() + pause

    def _left(self) -> int:
        left = self._until - self._clock()
        # More than the whole pause: the wall clock was set back, so the pause is void.
        return left if 0 < left <= self._pause else 0

    def _pause_after(self, error: UpstreamError) -> float:
        if isinstance(error, Throttled):
            return error.retry_after
        if isinstance(error, Forbidden):
            return REFUSED_SECONDS
        if self._failures < FAILURES_TO_OPEN:
            return 0.0
        return self._first_pause * min(
            2.0 ** min(self._failures - FAILURES_TO_OPEN, _LONGEST), _LONGEST
        )


def _plain(error: UpstreamError) -> UpstreamError:
    """Copy a failure without its traceback, which would keep a whole reply in memory."""
    if isinstance(error, Throttled):
        return Throttled(str(error), error.retry_after)
    return type(error)(str(error))


def _again(failure: UpstreamError, left: float) -> UpstreamError:
    message = f"{failure} (circuit breaker open)"
    if isinstance(failure, Throttled):
        return Throttled(message, left)
    return type(failure)(message)


class RestClient:
    """Calls Bybit's public REST API; every failure is an `UpstreamError`.

    Each endpoint has its own circuit breaker. Throttling and refusals concern every endpoint, so
    one more breaker covers the whole host.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None,
        sleep: Sleep,
        random: Random,
    ) -> None:
        self._seconds = settings.request_seconds
        self._breaker_seconds = settings.breaker_seconds
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._host = CircuitBreaker(clock, settings.breaker_seconds, (Throttled, Forbidden))
        self._endpoints: dict[Endpoint, CircuitBreaker] = {}
        self._failing: dict[Endpoint, str] = {}
        self._http = httpx2.AsyncClient(
            base_url=settings.exchange_rest_url,
            transport=transport,
            timeout=settings.request_seconds,
            headers={"User-Agent": "barograph", "Accept-Encoding": "gzip"},
            trust_env=False,
            verify=tls_context(),
        )

    def budget(self) -> TimeBudget:
        """Start the time budget of one reading."""
        return TimeBudget(self._seconds, self._clock)

    async def call(
        self,
        endpoint: Endpoint,
        params: Mapping[str, str],
        read: Callable[[Envelope], T],
        budget: TimeBudget,
    ) -> T:
        """Call `endpoint` and retry until `read` accepts the reply or the budget is spent.

        Raises:
            UpstreamError: how the last attempt failed, or why a breaker allowed none.
        """
        breaker = self._endpoints.setdefault(
            endpoint,
            CircuitBreaker(self._clock, self._breaker_seconds, (Unreachable, InvalidReply)),
        )

        async def attempt(seconds: float) -> T:
            reply = await self._fetch(endpoint, params, seconds)
            return read(open_envelope(reply, self._clock()))

        # Both checks come first: a call that one refuses must not count as a success for the other.
        self._host.check()
        breaker.check()
        try:
            with self._host.guard(), breaker.guard():
                answer = await _RETRIES.run(attempt, budget, self._sleep, self._random)
        except UnknownToUpstream:
            self._note_success(endpoint)
            raise
        except UpstreamError as error:
            self._note_failure(endpoint, error)
            raise
        self._note_success(endpoint)
        return answer

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _fetch(
        self, endpoint: Endpoint, params: Mapping[str, str], seconds: float
    ) -> HttpReply:
        try:
            async with (
                asyncio.timeout(seconds) as limit,
                self._http.stream("GET", f"/v5/market/{endpoint}", params=params) as response,
            ):
                return HttpReply(
                    status=response.status_code,
                    content_type=response.headers.get("content-type", ""),
                    limit_reset=response.headers.get("x-bapi-limit-reset-timestamp"),
                    body=await read_body(response, MAX_REPLY_BYTES, limit.when()),
                )
        except TimeoutError as error:
            raise Unreachable(f"{endpoint}: no answer within {seconds:.1f} s") from error
        except (httpx2.RequestError, OSError) as error:
            raise Unreachable(f"{endpoint}: {type(error).__name__} {error}".rstrip()) from error

    def _note_failure(self, endpoint: Endpoint, error: UpstreamError) -> None:
        """Log a failure when its kind changes, not at every poll."""
        if self._failing.get(endpoint) != error.kind:
            self._failing[endpoint] = error.kind
            log.warning(
                "exchange call failed",
                extra={"endpoint": endpoint, "kind": error.kind, "detail": str(error)},
            )

    def _note_success(self, endpoint: Endpoint) -> None:
        if self._failing.pop(endpoint, None) is not None:
            log.info("exchange call recovered", extra={"endpoint": endpoint})

"""REST calls to the exchange: timeouts, retries with backoff, and circuit breakers.

If the exchange hangs, each attempt times out after at most half of the call's time budget
(`request_seconds`). The call is retried until the budget is spent, and then raises `Unreachable`.
After four failed calls in a row the endpoint's circuit breaker opens: further calls fail at once,
and one call per pause tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
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
from barograph.settings import Settings
from barograph.upstream.bybit.circuit_breaker import CircuitBreaker
from barograph.upstream.bybit.wire import Envelope, HttpReply, open_envelope
from barograph.upstream.http import Retries, Sleep, TimeBudget, read_body, tls_context

log = logging.getLogger(__name__)

T = TypeVar("T")
Endpoint = Literal["time", "instruments-info", "tickers", "account-ratio", "funding/history"]

MAX_REPLY_BYTES = 16 * 1024 * 1024
"""All tickers take about 0.6 MB."""


_RETRIES = Retries(attempts=4, first_backoff=0.2, failures=(Unreachable, InvalidReply))


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

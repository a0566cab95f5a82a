"""REST calls to the exchange: timeouts, retries with backoff, and circuit breakers.

If the exchange hangs, each attempt times out after at most half of the call's time budget
(`request_seconds`). The call is retried until the budget is spent, and then raises `Unreachable`.
The first readings have a larger budget, so that the service starts even on a slow line.
After four failed calls in a row the endpoint's circuit breaker opens: further calls fail at once,
and one call per pause tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Literal, TypeVar
from urllib.parse import quote, urlencode

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
from barograph.kit.metrics import Metrics
from barograph.settings import Settings
from barograph.upstream.bybit.circuit_breaker import CircuitBreaker
from barograph.upstream.bybit.wire import Envelope, HttpReply, open_envelope
from barograph.upstream.http import Retries, Sleep, TimeBudget, read_body, tls_context

log = logging.getLogger(__name__)

T = TypeVar("T")
Endpoint = Literal[
    "time",
    "instruments-info",
    "tickers",
    "account-ratio",
    "funding/history",
    "kline",
    "open-interest",
]
Purpose = Literal["live", "history"]

MAX_REPLY_BYTES = 16 * 1024 * 1024
"""All tickers take about 0.6 MB."""

_START_SECONDS = 20.0
_IN_QUERIES: Final = "%=+/:;,?@!$'()*"
_RETRIES = Retries(attempts=4, first_backoff=0.2, failures=(Unreachable, InvalidReply))


class RestClient:
    """Calls Bybit's public REST API; every failure is an `UpstreamError`.

    Each endpoint has its own circuit breaker. Throttling and refusals concern every endpoint, so
    one more breaker covers the whole host. The history has breakers of its own: whatever happens
    to it, live readings go on. It stops when live readings are throttled or refused.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        *,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None,
        sleep: Sleep,
        random: Random,
    ) -> None:
        self._metrics = metrics
        self._seconds = settings.request_seconds
        self._breaker_seconds = settings.breaker_seconds
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._hosts: dict[Purpose, CircuitBreaker] = {
            purpose: CircuitBreaker(clock, settings.breaker_seconds, (Throttled, Forbidden))
            for purpose in ("live", "history")
        }
        self._endpoints: dict[tuple[Endpoint, Purpose], CircuitBreaker] = {}
        self._failing: dict[tuple[Endpoint, Purpose], str] = {}
        self._http = httpx2.AsyncClient(
            base_url=settings.exchange_rest_url,
            transport=transport,
            timeout=settings.request_seconds,
            headers={"User-Agent": settings.user_agent, "Accept-Encoding": "gzip"},
            trust_env=False,
            verify=tls_context(),
        )

    def budget(self) -> TimeBudget:
        """Start the time budget of one reading."""
        return TimeBudget(self._seconds, self._clock)

    def start_budget(self) -> TimeBudget:
        """Start the time budget of a first reading, which may be on a slow line."""
        return TimeBudget(max(_START_SECONDS, self._seconds), self._clock, patient=True)

    async def call(
        self,
        endpoint: Endpoint,
        params: Mapping[str, str],
        read: Callable[[Envelope], T],
        budget: TimeBudget,
        purpose: Purpose = "live",
    ) -> T:
        """Call `endpoint` and retry until `read` accepts the reply or the budget is spent.

        Raises:
            UpstreamError: how the last attempt failed, or why a breaker allowed none.
        """
        breaker = self._endpoints.setdefault(
            (endpoint, purpose),
            CircuitBreaker(self._clock, self._breaker_seconds, (Unreachable, InvalidReply)),
        )

        async def attempt(seconds: float) -> T:
            with self._metrics.call("bybit"):
                reply = await self._fetch(endpoint, params, seconds)
                return read(open_envelope(reply, self._clock()))

        host = self._hosts[purpose]
        # All checks come first: a call that one refuses must not count as a success for another.
        for each in (self._hosts["live"], host, breaker):
            each.check()
        try:
            with host.guard(), breaker.guard():
                answer = await _RETRIES.run(attempt, budget, self._sleep, self._random)
        except UnknownToUpstream:
            self._note_success(endpoint, purpose)
            raise
        except UpstreamError as error:
            self._note_failure(endpoint, purpose, error)
            raise
        self._note_success(endpoint, purpose)
        return answer

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _fetch(
        self, endpoint: Endpoint, params: Mapping[str, str], seconds: float
    ) -> HttpReply:
        address = f"/v5/market/{endpoint}?{_query(params)}"
        try:
            async with (
                asyncio.timeout(seconds) as limit,
                self._http.stream("GET", address, timeout=seconds) as response,
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

    def _note_failure(self, endpoint: Endpoint, purpose: Purpose, error: UpstreamError) -> None:
        """Log a failure when its kind changes, not at every poll."""
        if self._failing.get((endpoint, purpose)) != error.kind:
            self._failing[endpoint, purpose] = error.kind
            log.warning(
                "exchange call failed",
                extra={
                    "endpoint": endpoint,
                    "purpose": purpose,
                    "kind": error.kind,
                    "detail": str(error),
                },
            )

    def _note_success(self, endpoint: Endpoint, purpose: Purpose) -> None:
        if self._failing.pop((endpoint, purpose), None) is not None:
            log.info("exchange call recovered", extra={"endpoint": endpoint, "purpose": purpose})


def _query(params: Mapping[str, str]) -> str:
    """The query string. A cursor is sent back unchanged, because it is already percent-encoded."""
    query = urlencode({name: value for name, value in params.items() if name != "cursor"})
    cursor = params.get("cursor")
    return query if cursor is None else f"{query}&cursor={quote(cursor, safe=_IN_QUERIES)}"

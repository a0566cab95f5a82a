"""REST calls to an exchange: timeouts, retries with backoff, and circuit breakers.

If the exchange hangs, a call fails with `Unreachable` when its time budget is
spent. The calls of a reading are retried within the budget, so each attempt may use half of it.
Other calls have one attempt: their callers pace them within the exchange's rate limit, and repeat
them in turn. The first readings have a larger budget, so that the service starts even on a slow
line. After four failed calls in a row the endpoint's circuit breaker opens: further calls fail at
once, and one call per pause tries again.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Literal, TypeVar, get_args

import httpx2

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.circuit_breaker import CircuitBreaker
from barograph.kit.clock import Clock
from barograph.kit.http_client import (
    HttpReply,
    Retries,
    Sleep,
    TimeBudget,
    Transport,
    fetch,
    http_client,
)
from barograph.kit.metrics import Metrics
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")
Purpose = Literal["reading", "side", "history"]
"""What a call is for, the most important first."""

_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

MAX_REPLY_BYTES = 16 * 1024 * 1024
"""All tickers of the largest exchange take about 0.6 MB, its list of contracts 1.1 MB."""

_START_SECONDS = 20.0
_AHEAD_SECONDS = 60.0
_KINDS = (Unreachable, InvalidReply)
_RETRIES = Retries(attempts=4, first_backoff=0.2, failures=_KINDS)


BREAKER_SECONDS = 5.0
DEMO_BREAKER_SECONDS = 1.0
"""The first pause after repeated failures. It doubles with each failure, up to six times this."""


class VenueClient:
    """Calls one exchange's public REST API; every failure is an `UpstreamError`.

    Each endpoint has its own circuit breaker for each purpose. Only a reading speaks for the
    exchange: if it is throttled or refused, all calls stop. Another refused call stops only its
    endpoint, because a firewall may block one path. Throttling concerns our address, so a throttled
    side call stops all side calls and the history, and a throttled history call the history.
    """

    def __init__(
        self,
        venue: str,
        base_url: str,
        settings: Settings,
        metrics: Metrics,
        *,
        clock: Clock,
        transport: Transport | None,
        sleep: Sleep,
        random: Random,
        seconds: float,
        breaker_seconds: float,
    ) -> None:
        self._venue = venue
        self._metrics = metrics
        self._seconds = seconds
        self._breaker_seconds = breaker_seconds
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._hosts: dict[Purpose, CircuitBreaker] = {
            "reading": CircuitBreaker(clock, breaker_seconds, (Throttled, Forbidden)),
            "side": CircuitBreaker(clock, breaker_seconds, (Throttled,)),
            "history": CircuitBreaker(clock, breaker_seconds, (Throttled,)),
        }
        self._endpoints: dict[tuple[str, Purpose], CircuitBreaker] = {}
        self._failing: dict[tuple[str, Purpose], str] = {}
        headers = {"User-Agent": settings.user_agent, "Accept-Encoding": "gzip"}
        self._http = http_client(transport, headers, base_url=base_url)

    def budget(self) -> TimeBudget:
        """Start the time budget of one reading."""
        return TimeBudget(self._seconds, self._clock)

    def start_budget(self) -> TimeBudget:
        """Start the time budget of a first reading, which may be on a slow line."""
        return TimeBudget(max(_START_SECONDS, self._seconds), self._clock, patient=True)

    async def call(
        self,
        endpoint: str,
        address: str,
        read: Callable[[HttpReply], T],
        budget: TimeBudget,
        *,
        purpose: Purpose = "side",
        body: bytes | None = None,
    ) -> T:
        """Call an endpoint, for a reading until `read` accepts the reply or the budget is spent.

        `address` is the path with its query. With a `body`, which is JSON, it is a POST.

        Raises:
            UpstreamError: how the last attempt failed, or why a breaker allowed none.
        """
        is_reading = purpose == "reading"
        kinds = _KINDS if is_reading else (*_KINDS, Forbidden)
        breaker = self._endpoints.setdefault(
            (endpoint, purpose), CircuitBreaker(self._clock, self._breaker_seconds, kinds)
        )

        async def attempt(seconds: float) -> T:
            with self._metrics.call(self._venue):
                return read(await self._fetch(endpoint, address, body, seconds))

        # All checks come first: a call that one refuses must not count as a success for another.
        hosts = [self._hosts[name] for name in _PURPOSES[: _PURPOSES.index(purpose) + 1]]
        for checked in (*hosts, breaker):
            checked.check()
        try:
            with hosts[-1].guard(), breaker.guard():
                if is_reading:
                    answer = await _RETRIES.run(attempt, budget, self._sleep, self._random)
                else:
                    answer = await attempt(budget.left())
        except UpstreamError as error:
            self._note(endpoint, purpose, None if isinstance(error, UnknownToUpstream) else error)
            raise
        self._note(endpoint, purpose, None)
        return answer

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _fetch(
        self, endpoint: str, address: str, body: bytes | None, seconds: float
    ) -> HttpReply:
        method, headers = "GET", {}
        if body is not None:
            method, headers = "POST", {"Content-Type": "application/json"}
        request = self._http.build_request(
            method, address, content=body, headers=headers, timeout=seconds
        )
        try:
            return await fetch(self._http, request, seconds, MAX_REPLY_BYTES)
        except TimeoutError as error:
            raise Unreachable(f"{endpoint}: no answer within {seconds:.1f} s") from error
        except (httpx2.RequestError, OSError) as error:
            raise Unreachable(f"{endpoint}: {type(error).__name__} {error}".rstrip()) from error

    def _note(self, endpoint: str, purpose: Purpose, error: UpstreamError | None) -> None:
        """Log a failure when its kind changes, and the recovery, not every call."""
        before = self._failing.pop((endpoint, purpose), None)
        fields = {"venue": self._venue, "endpoint": endpoint, "purpose": purpose}
        if error is not None:
            self._failing[endpoint, purpose] = error.kind
            if before != error.kind:
                extra = {**fields, "kind": error.kind, "detail": str(error)}
                log.warning("exchange call failed", extra=extra)
        elif before is not None:
            log.info("exchange call recovered", extra=fields)


class ReadingTimes:
    """Checks the times of replies, and says when a reading was taken."""

    def __init__(self, clock: Clock, max_age_seconds: float) -> None:
        self._clock = clock
        self._max_age = max_age_seconds
        self._last = 0
        self.last_as_of = 0

    def check(self, time: int) -> int:
        """Return a time, or raise `InvalidReply` as `check_clock` does."""
        return check_clock(time, self._clock(), self._max_age)

    def as_of(self, time: int) -> int:
        """When the reading of this time was taken, at the latest now.

        A reply that is served again keeps its time, even if the exchange's clock is ahead of ours.
        """
        if time != self._last:
            self._last, self.last_as_of = time, min(time, self._clock())
        return self.last_as_of


def check_clock(time: int, now: int, max_age_seconds: float) -> int:
    """Return the time of a reply, or raise `InvalidReply` if it is old or our clocks differ."""
    behind = (now - time) / SECOND
    if behind > max_age_seconds:
        raise InvalidReply(f"the exchange's clock is {behind:.0f} s behind")
    if -behind > _AHEAD_SECONDS:
        raise InvalidReply(f"the exchange's clock is {-behind:.0f} s ahead")
    return time

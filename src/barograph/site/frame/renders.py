"""Render what is not cached: count each render against its caller's limit, and run few at a time.

Cached pages never come here. Rendering runs on the event loop that also answers hot reads, so
renders wait in a queue, and while any wait the loop is left to other work about half of the time.
Each caller has only a few places in the queue, and pages that are kept for everyone go before pages
for a single request. Refusals are spaced out, because a client that ignores them would otherwise
keep the loop busy.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from barograph.errors import RequestError
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.documents import Headers
from barograph.kit.http import Scope
from barograph.limits.rate_limits import RENDERS, RateLimiter, TooManyRequests, rate_limit_fields

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

AT_ONCE = 2
"""A single one could block all others while it waits for a database or a thread."""

MOST_PENDING = 128
"""Renders that run or wait: two or three seconds of work."""

MOST_PER_CALLER = 32
"""Renders that run or wait for one caller: several people or a crawler behind one address."""

LONGEST_REST = 0.05
"""Seconds; a render that took longer mostly waited for a database or a thread."""

REFUSAL_SPACING = 0.004
LONGEST_HOLD = 2.0
"""Seconds that a refusal may wait for its turn; further ones are sent at once."""


class RenderQueueFull(RequestError):
    """Too many renders are waiting already; nothing was charged."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the server is busy rendering; try again in a few seconds")


class _Refused(NamedTuple):
    """A render that was not started, and who asked for it."""

    caller: str
    error: RequestError


class Renders:
    """Runs renders in turn; requests for the same key share one render."""

    def __init__(
        self,
        limiter: RateLimiter,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limiter = limiter
        self._clock = clock
        self._sleep = sleep
        self._monotonic = monotonic
        self._flights: SingleFlight[Hashable, Any] = SingleFlight()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._single_turns = asyncio.Semaphore(AT_ONCE)
        self._pending: Counter[str] = Counter()
        self._rest = 0.0
        self._next_refusal = 0.0

    async def once(
        self, scope: Scope, key: Hashable, work: Work[T], *, is_shared: bool = False
    ) -> tuple[T, Headers]:
        """Render, or wait for the render of `key` that another request started and was charged for.

        Returns the rate-limit fields as well, empty for a request that did not pay. A render that
        `is_shared` is kept for everyone: it is not refused because others fill the queue.

        Raises:
            TooManyRequests: the caller's limit is spent.
            RenderQueueFull: too many renders are waiting.
        """
        caller = self._limiter.caller(scope)
        while True:
            is_payer = key not in self._flights
            start = partial(self._charged, caller, work, is_shared=is_shared)
            found = await self._flights.do(key, start)
            if not isinstance(found, _Refused):
                rendered, fields = found
                return rendered, fields if is_payer else []
            if found.caller == caller:
                await self._hold_refusal()
                raise found.error
            # Another caller was refused; this one has a limit of its own.

    async def _charged(
        self, caller: str, work: Work[T], *, is_shared: bool
    ) -> tuple[T, Headers] | _Refused:
        is_full = self._pending.total() >= MOST_PENDING and not is_shared
        if is_full or self._pending[caller] >= MOST_PER_CALLER:
            return _Refused(caller, RenderQueueFull())
        self._pending[caller] += 1  # before charging, which may take a while
        try:
            usage = await self._limiter.count(RENDERS, caller)
            fields = rate_limit_fields(usage, self._clock())
            return await self._in_turn(work, is_shared), fields
        except TooManyRequests as error:
            return _Refused(caller, error)
        finally:
            self._pending[caller] -= 1
            self._pending += Counter()  # forgets callers with nothing pending

    async def _in_turn(self, work: Work[T], is_shared: bool) -> T:
        if is_shared:
            return await self._run(work)
        async with self._single_turns:  # so that only two are ever ahead of a shared one
            return await self._run(work)

    async def _run(self, work: Work[T]) -> T:
        async with self._turns:
            await self._sleep(self._rest)
            begun = self._monotonic()
            try:
                return await work()
            finally:
                # While others wait, leave the loop to hot reads as long as this render took.
                took = self._monotonic() - begun
                is_queue = self._pending.total() > AT_ONCE
                self._rest = min(AT_ONCE * took, LONGEST_REST) if is_queue else 0.0

    async def _hold_refusal(self) -> None:
        now = self._monotonic()
        turn = max(now, self._next_refusal)
        if turn - now <= LONGEST_HOLD:
            self._next_refusal = turn + REFUSAL_SPACING
            await self._sleep(turn - now)

"""Render what is not cached: count each render against its caller's limit, and run few at a time.

Cached pages never come here. Rendering runs on the event loop that also answers hot reads, so
renders wait in a queue, and while any wait the loop is left to other work about half of the time.
Refusals are spaced out, because a client that ignores them would otherwise keep the loop busy.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, TypeVar

from barograph.access.allowances import RENDERS
from barograph.access.fields import rate_limit_fields
from barograph.access.gate import Gate
from barograph.access.refusals import TooManyRequests
from barograph.errors import RequestError
from barograph.kit.clock import Clock
from barograph.kit.documents import Headers
from barograph.kit.http import Scope
from barograph.kit.single_flight import SingleFlight

T = TypeVar("T")

AT_ONCE = 2
"""A single one could block all others while it waits for a database or a thread."""

MOST_PENDING = 128
"""Renders that run or wait: two or three seconds of work."""

REFUSAL_SPACING = 0.004
LONGEST_HOLD = 2.0
"""Seconds that a refusal may wait for its turn; further ones are sent at once."""


class RenderQueueFull(RequestError):
    """Too many renders are waiting already; nothing was charged."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the server is busy rendering; try again in a few seconds")


class Renders:
    """Runs renders in turn; requests for the same key share one render."""

    def __init__(
        self,
        gate: Gate,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._clock = clock
        self._sleep = sleep
        self._monotonic = monotonic
        self._flights: SingleFlight[Hashable, Any] = SingleFlight()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pending = 0
        self._rest = 0.0
        self._next_refusal = 0.0

    async def charge(self, scope: Scope) -> Headers:
        """Charge one render to a caller, and return the rate-limit fields of the answer.

        Raises:
            TooManyRequests: the caller's allowance is spent.
        """
        try:
            standing = await self._gate.charge(RENDERS, self._gate.caller(scope))
        except TooManyRequests:
            await self._hold_refusal()
            raise
        return rate_limit_fields(standing, self._clock())

    async def once(
        self, scope: Scope, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[T, Headers]:
        """Render, or wait for the render of `key` that another request started and was charged for.

        Raises:
            TooManyRequests: the caller's allowance is spent.
            RenderQueueFull: too many renders are waiting.
        """
        fields: Headers = []
        if key not in self._flights:
            self._require_room()
            fields = await self.charge(scope)
        return await self._flights.do(key, lambda: self._in_turn(work)), fields

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_room()  # again: charging may have taken a while
        self._pending += 1
        try:
            async with self._turns:
                await self._sleep(self._rest)
                begun = self._monotonic()
                try:
                    return await work()
                finally:
                    # While others wait, leave the loop to hot reads as long as this render took.
                    took = self._monotonic() - begun
                    self._rest = AT_ONCE * took if self._pending > AT_ONCE else 0.0
        finally:
            self._pending -= 1

    def _require_room(self) -> None:
        if self._pending >= MOST_PENDING:
            raise RenderQueueFull

    async def _hold_refusal(self) -> None:
        now = self._monotonic()
        turn = max(now, self._next_refusal)
        if turn - now <= LONGEST_HOLD:
            self._next_refusal = turn + REFUSAL_SPACING
            await self._sleep(turn - now)

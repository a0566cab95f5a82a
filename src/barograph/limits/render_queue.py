"""The queue of uncached renders: each counts against its caller's limit, and few run at a time.

Renders share the event loop with cached reads. While renders wait, the queue leaves the loop free
for about half of the time. Each caller has only a few places in the queue, and pages that will be
cached for everyone go before pages for a single request. Refusals are spaced out, because a client
that ignores them would otherwise keep the loop busy.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import RequestError, TemporarilyUnavailable
from barograph.kit.caches import MinuteCache, SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.database import LOST_SECONDS, DatabaseUnavailable
from barograph.kit.documents import Document, Headers
from barograph.kit.http import DocumentResponse, Scope
from barograph.limits.rate_limits import RENDERS, RateLimiter, TooManyRequests, rate_limit_fields

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

AT_ONCE = 2
"""A single render could block all others while it waits for a database or a thread."""

MAX_PENDING = 128
"""Renders that run or wait; two or three seconds of work."""

MAX_PER_CALLER = 32
"""Renders that run or wait for one caller; enough for several people or a crawler."""

MAX_REST_SECONDS = 0.05
"""A render that took longer mostly waited for a database or a thread."""

RENDER_BYTES = 256 * 1024
"""A document for one request counts as one more render for each such part of its length."""

REFUSAL_SPACING_SECONDS = 0.004
MAX_REFUSAL_DELAY_SECONDS = 2.0
"""Refusals that would wait longer are sent at once."""


class RenderQueueFull(RequestError):
    """Too many renders are waiting; this request does not count against a limit."""

    status = 503
    text = "the server is busy rendering; try again in a few seconds"


class _RefusedRender(NamedTuple):
    """A render that was not started."""

    caller: str
    error: RequestError


class RenderQueue:
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

    async def render(
        self, scope: Scope, key: Hashable, work: Work[T], *, is_shared: bool = False
    ) -> tuple[T, Headers]:
        """Render, or wait for a render of `key` that another request started.

        Also returns the rate-limit fields, which are empty if this request did not count. A page
        that `is_shared` will be cached for everyone, so a full queue does not refuse it.

        Raises:
            TooManyRequests: the caller's render limit is reached.
            RenderQueueFull: too many renders are waiting.
        """
        caller = self._limiter.caller(scope)
        while True:
            is_first = key not in self._flights
            start = partial(self._counted, caller, work, is_shared=is_shared)
            outcome = await self._flights.do(key, start)
            if not isinstance(outcome, _RefusedRender):
                rendered, fields = outcome
                return rendered, fields if is_first else []
            if outcome.caller == caller:
                await self._delay_refusal()
                raise outcome.error
            # Another caller was refused; this one has its own limit, so try again.

    async def read(self, scope: Scope, key: Hashable, work: Work[T]) -> tuple[T, Headers]:
        """Render from a database.

        Raises:
            TemporarilyUnavailable: the database can't be read.
            RequestError: as `render` does.
        """
        try:
            return await self.render(scope, key, work)
        except DatabaseUnavailable as error:
            raise TemporarilyUnavailable from error

    async def _counted(
        self, caller: str, work: Work[T], *, is_shared: bool
    ) -> tuple[T, Headers] | _RefusedRender:
        is_full = self._pending.total() >= MAX_PENDING and not is_shared
        if is_full or self._pending[caller] >= MAX_PER_CALLER:
            return _RefusedRender(caller, RenderQueueFull())
        LOST_SECONDS.set([])  # the reads of a render share one timeout
        self._pending[caller] += 1  # before counting, which may take a while
        try:
            usage = await self._limiter.count(RENDERS, caller)
            rendered = await self._in_turn(work, is_shared)
            size = len(rendered.body) if isinstance(rendered, Document) and not is_shared else 0
            with suppress(TooManyRequests):  # then nothing is left, but this one was accepted
                for _ in range(size // RENDER_BYTES):
                    usage = await self._limiter.count(RENDERS, caller)
            return rendered, rate_limit_fields(usage, self._clock())
        except TooManyRequests as error:
            return _RefusedRender(caller, error)
        finally:
            self._pending[caller] -= 1
            self._pending += Counter()  # drops callers with nothing pending

    async def _in_turn(self, work: Work[T], is_shared: bool) -> T:
        if is_shared:
            return await self._run(work)
        async with self._single_turns:  # at most two are ahead of a shared render
            return await self._run(work)

    async def _run(self, work: Work[T]) -> T:
        async with self._turns:
            await self._sleep(self._rest)
            begun = self._monotonic()
            try:
                return await work()
            finally:
                # While others wait, leave the loop free for as long as this render took.
                took = self._monotonic() - begun
                is_queue = self._pending.total() > AT_ONCE
                self._rest = min(AT_ONCE * took, MAX_REST_SECONDS) if is_queue else 0.0

    async def _delay_refusal(self) -> None:
        now = self._monotonic()
        turn = max(now, self._next_refusal)
        if turn - now <= MAX_REFUSAL_DELAY_SECONDS:
            self._next_refusal = turn + REFUSAL_SPACING_SECONDS
            await self._sleep(turn - now)


class RenderedReads:
    """Renders each document at most once per minute; only renders count against a rate limit."""

    def __init__(self, queue: RenderQueue, clock: Clock, size: int) -> None:
        self._queue = queue
        self._clock = clock
        self.cache: MinuteCache[Hashable, Document] = MinuteCache(clock, size)

    async def respond(
        self, request: Request, key: Hashable, render: Callable[[], Coroutine[Any, Any, Document]]
    ) -> Response:
        """Respond with the document of this key; raises as `RenderQueue.read` does."""
        minute = self.cache.minute
        if (kept := self.kept(key)) is not None:
            return kept
        document, fields = await self._queue.read(request.scope, (minute, key), render)
        return self.keep(key, minute, document, fields)

    def kept(self, key: Hashable) -> Response | None:
        """A response with the document of this key, if there is one."""
        cached = self.cache.get(key)
        return None if cached is None else DocumentResponse(cached, self._clock())

    def keep(self, key: Hashable, minute: int, document: Document, fields: Headers) -> Response:
        """Keep a document that was rendered in this minute, and respond with it."""
        self.cache.put(key, minute, document)
        return DocumentResponse(document, self._clock(), fields)

"""Reads that have to be rendered: at most once per minute, within the caller's render limit."""

from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.caches import MinuteCache
from barograph.kit.clock import Clock
from barograph.kit.documents import Document, Headers
from barograph.kit.http import DocumentResponse
from barograph.limits.render_queue import RenderQueue


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
        found, fields = await self._queue.read(request.scope, (minute, key), render)
        return self.keep(key, minute, found, fields)

    def kept(self, key: Hashable) -> Response | None:
        """A response with the document of this key, if there is one."""
        cached = self.cache.get(key)
        return None if cached is None else DocumentResponse(cached, self._clock())

    def keep(self, key: Hashable, minute: int, found: Document, fields: Headers) -> Response:
        """Keep a document that was rendered in this minute, and respond with it."""
        self.cache.put(key, minute, found)
        return DocumentResponse(found, self._clock(), fields)

"""`/api/v1/events/stream`: the log of what changed, as server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.errors import InvalidRequest, RequestError, TemporarilyUnavailable
from barograph.events.endpoints import EVENTS_PATH, FILTERS
from barograph.events.query import (
    BEYOND,
    UNKNOWN_SYMBOL,
    EventFilter,
    Resolve,
    event_id,
    filter_from,
)
from barograph.events.records import MAX_PER_CALLER, Event
from barograph.events.store import events_after
from barograph.events.tail import EventTail, encode_event
from barograph.kit.database import Database
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF
from barograph.kit.http import NO_BODY, ApiRouter, Receive, Scope, Send, next_disconnect
from barograph.kit.lists import given_parameters, one_of
from barograph.kit.wire import Schema, operation, parameter, refusal
from barograph.limits.rate_limits import RateLimiter
from barograph.limits.render_queue import RenderQueue

STREAM_PATH = f"{EVENTS_PATH}/stream"
MAX_STREAMS = 5_000
"""Open streams per worker."""

PAGE_EVENTS = 500
"""Older events that are read from the database at a time."""

NAMES = ("on", "off")
SEND_SECONDS = 10
"""How long a reader may take to accept a message."""

LIFE_BEATS, SPREAD_BEATS = 215, 40
"""A stream ends after 50 to 60 minutes: the server buffers what a stalled reader does not read."""

# Comments are lines, not blocks: some clients take an empty block for an event.
OPENING = b"retry: 3000\n: connected\n"
HEARTBEAT = b": heartbeat\n"

RESET = 'id: {0}\n{1}data: {{"last_id":{0},"type":"log.reset"}}\n\n'
"""For a Last-Event-ID that the log does not have. The client's position becomes the newest id."""


class TooManyStreams(RequestError):
    """The caller has too many open streams."""

    status = 429


class EventStreams:
    """The open streams of a worker."""

    def __init__(
        self, board: Board, database: Database, queue: RenderQueue, limiter: RateLimiter
    ) -> None:
        self.tail = EventTail(board)
        self._board, self._database = board, database
        self._queue, self._limiter = queue, limiter
        self._open: Counter[str] = Counter()
        self._opened = 0

    async def page(self, scope: Scope, last: int) -> Sequence[Event]:
        """The events after an id: from memory, or else the first ones from the database."""
        recent = self.tail.after(last)
        return await self._read(scope, last) if recent is None else recent

    async def has(self, scope: Scope, last: int) -> bool:
        """Whether there is an event with this id, or it is 0."""
        # Another worker may have seen an event that this one learns of with its next poll.
        return last <= self.tail.newest or bool(await self._read(scope, last - 1))

    @contextmanager
    def place(self, scope: Scope) -> Iterator[int]:
        """Take a place for a stream, and yield how many beats it may live.

        Raises:
            TooManyStreams: the caller has too many.
            TemporarilyUnavailable: the worker has too many, stops, or does not know the log yet.
        """
        caller = self._limiter.caller(scope)
        is_full = self._open.total() >= MAX_STREAMS
        if is_full or self.tail.is_closed or self._board.polled_at is None:
            raise TemporarilyUnavailable
        if self._open[caller] >= MAX_PER_CALLER:
            raise TooManyStreams(_TOO_MANY)
        self._open[caller] += 1
        self._opened += 1
        try:
            yield LIFE_BEATS + self._opened % SPREAD_BEATS
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    async def _read(self, scope: Scope, last: int) -> Sequence[Event]:
        """Events from the database; streams at the same position share one read."""
        work = partial(events_after, self._database, last, PAGE_EVENTS)
        return (await self._queue.read(scope, (STREAM_PATH, last), work))[0]


class _Stream(Response):
    """One open stream."""

    def __init__(
        self, streams: EventStreams, wanted: EventFilter, after: int | None, *, named: bool
    ) -> None:
        super().__init__()
        self._streams, self._tail, self._named = streams, streams.tail, named
        self._wanted, self._after = wanted, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects, reads too slowly or the stream's life ends."""
        with self._streams.place(scope) as beats:
            epoch, until = self._tail.epoch, self._tail.beats + beats
            start = await self._position(scope)
            await self._streams.page(scope, start[0])  # its errors go before the first byte
            await send({"type": "http.response.start", "status": 200, "headers": _FIELDS})
            if scope.get("is_head"):
                await send(NO_BODY)
                return
            woken, gone = asyncio.Event(), asyncio.ensure_future(next_disconnect(receive))
            gone.add_done_callback(lambda _: woken.set())
            self._tail.streams.add(woken)
            try:
                while self._tail.epoch == epoch and self._tail.beats < until and not gone.done():
                    start = await self._forward(scope, send, woken, start)
                await _send_text(send, b"", more=False)
            except (TimeoutError, RequestError):
                pass  # a client that reads nothing can't take the end either
            finally:
                self._tail.streams.discard(woken)
                gone.cancel()

    async def _position(self, scope: Scope) -> tuple[int, bytes]:
        """The id to start after, and the first lines of the stream."""
        newest = self._tail.newest
        for name, value in scope["headers"]:
            if name == b"last-event-id" and value:
                with suppress(InvalidRequest):
                    last = event_id("Last-Event-ID", value.decode("latin-1"))
                    if await self._streams.has(scope, last):
                        return last, OPENING
                line = "event: log.reset\n" if self._named else ""
                return newest, OPENING + RESET.format(newest, line).encode()
        if self._after is None:
            return newest, OPENING
        if not await self._streams.has(scope, self._after):
            raise InvalidRequest(f"{BEYOND}{newest}")
        return self._after, OPENING

    async def _forward(
        self, scope: Scope, send: Send, woken: asyncio.Event, start: tuple[int, bytes]
    ) -> tuple[int, bytes]:
        """Send what follows an id, after some text; return where to go on, once there is more."""
        beats, (last, text) = self._tail.beats, start
        woken.clear()  # before reading, so that nothing is missed
        page = await self._streams.page(scope, last)
        matching = (each for each in page if self._wanted.matches(each))
        text += b"".join(encode_event(each, named=self._named) for each in matching)
        if text:
            await _send_text(send, text)
        if page:
            last = page[-1].id
        else:
            await woken.wait()
        return last, HEARTBEAT if self._tail.beats != beats else b""


async def _send_text(send: Send, text: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": text, "more_body": more})


def stream_routes(streams: EventStreams, venues: Collection[str], resolve: Resolve) -> ApiRouter:
    """The route of the stream; `resolve` finds symbols."""
    router = ApiRouter(tags=["stream"])

    @router.get(STREAM_PATH, **operation("streamEvents", None, *_PARAMETERS, responses=_RESPONSES))
    async def stream(request: Request) -> Response:
        given = given_parameters(request.query_params, _PARAMETERS, venues)
        after = event_id("after", given["after"]) if "after" in given else None
        named = one_of(given, "names", NAMES, "on", InvalidRequest) == "on"
        return _Stream(streams, filter_from(given, resolve), after, named=named)

    return router


_EXAMPLE = (
    "retry: 3000\n: connected\nid: 1042\nevent: feed.recovered\n"
    'data: {"at":"2026-11-15T10:00:00.000Z","feed":"market-feed","id":1042,'
    f'"notice":"{NOTICE}","type":"feed.recovered","venue":"bybit"}}\n\n'
)
_TOO_MANY = (
    f"too many streams: one address may have {MAX_PER_CALLER} open; close one, or use one stream "
    "for several types and symbols, with commas"
)
_FIELDS = [
    (b"content-type", b"text/event-stream"),
    (b"x-accel-buffering", b"no"),
    *(NO_STORE, NOSNIFF, *CORS),
]
_NAMES = "`off` omits the `event:` lines, so `onmessage` of an EventSource gets every event."
_PARAMETERS = (
    parameter("query", "after", "Start after this id. Default: the newest event.", type="integer"),
    *FILTERS,
    parameter("query", "names", _NAMES, enum=list(NAMES), default="on"),
    parameter("header", "Last-Event-ID", "The last id that you have seen. Wins over `after`."),
)
_RESPONSES: dict[int, str | Schema] = {
    200: {
        "description": "Events without end, each with `id`, `event` (its type) and `data` (as in "
        "`/api/v1/events`). A comment at least every 15 seconds. If the log has no event with your "
        "`Last-Event-ID`, a first event `log.reset` with `last_id`, and then what is new.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        "headers": {"X-Accel-Buffering": {"schema": {"type": "string", "const": "no"}}},
    },
    400: refusal("Invalid parameter.", example=f"{BEYOND}1042"),
    404: refusal("Unknown symbol or venue.", example=UNKNOWN_SYMBOL),
    429: refusal("Too many streams, or limit reached.", example=_TOO_MANY),
    503: refusal(
        "Too many streams in all, or no database.", example=TemporarilyUnavailable().message
    ),
}

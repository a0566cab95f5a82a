"""What the simulated venues with GET requests share: paths, counting, faults and distorted rows."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.kit.clock import Clock, system_clock
from barograph_demo.servers.control import (
    HOST,
    OTHER,
    GetServer,
    ServerAddress,
    bad_gateway,
    blocked_country,
    reply,
    reset,
    truncated,
    unavailable,
)
from barograph_demo.servers.faults import VenueFault, VenueFaults
from barograph_demo.world.world import World

V = TypeVar("V", bound=VenueFaults)

Query = dict[str, str]


class VenueServer(GetServer[V]):
    """Answers the REST requests of a venue, unless a fault replaces an answer."""

    paths: Collection[str]
    limit: tuple[int, int] = (0, 0)
    """How often an address may call each endpoint, and in how many milliseconds."""

    def __init__(self, clock: Clock, faults: V) -> None:
        super().__init__(clock, faults)
        self._calls: dict[str, tuple[int, int]] = {}

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""
        parts = urlsplit(request.path)
        path, query = parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))
        if self.is_stream(path, request):
            return self.refuses_stream()
        self.requests[path if path in self.paths else OTHER] += 1
        refused = self.over_limit(path, query)
        if refused is not None:
            return refused
        match await self._fault_after_hanging(connection, path):
            case None:
                return self.answer(path, query)
            case VenueFault.HANG:
                return unavailable()
            case VenueFault.RESET:
                return await reset(connection)
            case fault:
                return self.fault_reply(fault, path)

    def is_stream(self, _path: str, _request: Request) -> bool:
        """Whether a request opens the venue's websocket."""
        return False

    def refuses_stream(self) -> Response | None:
        """The refusal of a websocket; None opens it."""
        return None

    def over_limit(self, path: str, _query: Query) -> Response | None:
        """Count a request; the refusal if its sender is above a limit."""
        most, milliseconds = self.limit
        span = self._clock() // milliseconds
        known, used = self._calls.get(path, (span, 0))
        self._calls[path] = span, used + 1 if known == span else 1
        is_above = self._calls[path][1] > most
        return labelled(HTTPStatus.TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS") if is_above else None

    @abstractmethod
    def answer(self, path: str, query: Query) -> Response:
        """The answer to a request, perhaps distorted."""

    def fault_reply(self, fault: str, _path: str) -> Response:
        """The reply that a fault sends instead of the answer."""
        if fault == VenueFault.GEO_BLOCK:
            return blocked_country()
        if fault == VenueFault.OVERLOADED:
            return reply(HTTPStatus.TOO_MANY_REQUESTS, b"{}")
        return bad_gateway()

    def distorted(self, path: str, status: int, body: bytes, **headers: str) -> Response:
        """An answer as faults leave it: without rows, with unknown fields, or cut off."""
        if self._faults.is_on(VenueFault.EMPTY_LIST, path):
            body = _without_rows(body)
        if self._faults.is_on(VenueFault.UNKNOWN_FIELDS, path):
            body = _with_unknown_fields(body)
        if self._faults.is_on(VenueFault.TRUNCATED, path):
            return truncated(status, body)
        return reply(status, body, **headers)


def labelled(status: int, label: str) -> Response:
    """An error with a label."""
    return reply(status, msgspec.json.encode({"label": label, "message": label.lower()}))


Running = Callable[..., AbstractAsyncContextManager[ServerAddress]]
"""Takes the world, and perhaps the clock, the faults, `host` and `port`; yields the address."""


def runner(server: Callable[[World, Clock, V], VenueServer[V]], kind: type[V]) -> Running:
    """How a server without a stream is run until its context ends; port 0 picks a free one."""

    @asynccontextmanager
    async def running(
        world: World,
        clock: Clock = system_clock,
        faults: V | None = None,
        *,
        host: str = HOST,
        port: int = 0,
    ) -> AsyncIterator[ServerAddress]:
        running = server(world, clock, kind() if faults is None else faults)
        async with running.running(host, port) as bound:
            yield ServerAddress(host, bound)

    return running


def _with_unknown_fields(body: bytes) -> bytes:
    """Each row with a field that nobody has documented."""
    message = msgspec.json.decode(body)
    rows: list[Any] = message if isinstance(message, list) else [message]
    if isinstance(message, dict):
        rows += message.get("symbols", [])
    for row in rows:
        if isinstance(row, dict):  # a candle of Binance is a list
            row["newField"] = {"values": [1, None]}
    return msgspec.json.encode(message)


def _without_rows(body: bytes) -> bytes:
    message = msgspec.json.decode(body)
    if isinstance(message, list):
        return b"[]"
    return msgspec.json.encode(message | ({"symbols": []} if "symbols" in message else {}))

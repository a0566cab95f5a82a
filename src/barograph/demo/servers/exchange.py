"""The simulated exchange: REST, stream and control on one loopback port."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo.servers.control import (
    HOST,
    JSON,
    OTHER,
    TEXT,
    GetServer,
    ServerAddress,
    reply,
    reset,
    unavailable,
)
from barograph.demo.servers.faults import ExchangeFault, ExchangeFaults
from barograph.demo.servers.rest import PATHS, answer, envelope
from barograph.demo.servers.stream import Stream
from barograph.demo.world.world import World
from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import MINUTE, SECOND

STREAM_PATH: Final = "/v5/public/linear"

LIMIT_REQUESTS: Final = 600
LIMIT_MS: Final = 5 * SECOND
"""The exchange allows an address 600 requests in five seconds."""

BAN_MS: Final = 10 * MINUTE
"""An address that sends more is refused for ten minutes."""

_PUSH_SECONDS: Final = 0.5
_HTML: Final = "text/html"

_BLOCKED_COUNTRY: Final = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY>
<H1>403 ERROR</H1><H2>The request could not be satisfied.</H2>
The Amazon CloudFront distribution is configured to block access from your country.
</BODY></HTML>
"""
_BAD_GATEWAY: Final = b"""<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center></body></html>
"""

_log = logging.getLogger(__name__)


class ExchangeAddress(ServerAddress):
    """Where a simulated exchange listens."""

    @property
    def stream_url(self) -> str:
        """The URL of the public websocket."""
        return f"ws://{self.host}:{self.port}{STREAM_PATH}"


class ExchangeServer(GetServer[ExchangeFaults]):
    """Answers REST requests and feeds the stream."""

    def __init__(self, world: World, clock: Clock, faults: ExchangeFaults) -> None:
        super().__init__(clock, faults)
        self._world = world
        self._recent: deque[int] = deque()
        self._banned_until = 0
        self.stream = Stream(world, faults, self.now)

    def now(self, path: str | None = None) -> int:
        """The exchange's time, which the stale-clock fault freezes."""
        stale = self._faults.find(ExchangeFault.STALE_CLOCK, path)
        return self._clock() if stale is None else stale.since

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets the stream's websocket open."""
        parts = urlsplit(request.path)
        path = parts.path
        if path == STREAM_PATH:
            blocked = self._faults.is_on(ExchangeFault.BLOCKED_COUNTRY)
            return _faulty_reply(ExchangeFault.BLOCKED_COUNTRY, self.now()) if blocked else None
        self.requests[path if path in PATHS else OTHER] += 1
        if self._is_banned():
            return _faulty_reply(ExchangeFault.BLOCKED_ADDRESS, self.now())
        match await self._fault_after_hanging(connection, path):
            case None:
                return self._answer(path, dict(parse_qsl(parts.query, keep_blank_values=True)))
            case ExchangeFault.HANG:
                return unavailable()
            case ExchangeFault.RESET:
                return await reset(connection)
            case fault:
                return _faulty_reply(fault, self.now(path))

    def _is_banned(self) -> bool:
        """Whether this request or an earlier one exceeded the rate limit."""
        now = self._clock()
        # A request that seems to be in the future was counted before the clock was set back.
        while self._recent and not now - LIMIT_MS < self._recent[0] <= now:
            self._recent.popleft()
        self._recent.append(now)
        if len(self._recent) > LIMIT_REQUESTS:
            self._banned_until = now + BAN_MS
        return now < self._banned_until

    def _answer(self, path: str, query: dict[str, str]) -> Response:
        status, body = answer(self._world, path, query, self.now(path), self._faults.closed)
        if self._faults.is_on(ExchangeFault.UNKNOWN_CLASS):
            body = body.replace(b'"symbolType":"forex"', b'"symbolType":"prediction"')
        if path in PATHS and self._faults.is_on(ExchangeFault.EMPTY_LIST, path):
            body = _without_rows(body)
        if self._faults.is_on(ExchangeFault.TRUNCATED, path):
            return _truncated(status, body)
        return reply(status, body, JSON if path in PATHS else TEXT)

    async def on_websocket(self, connection: ServerConnection) -> None:
        """Serve a stream or control connection until it closes."""
        request = cast("Request", connection.request)
        if urlsplit(request.path).path == STREAM_PATH:
            await self.stream.serve(connection)
        else:
            await super().on_websocket(connection)

    async def push(self, seconds: float) -> None:
        """Feed the stream forever."""
        while True:
            self.stream.pump()
            await asyncio.sleep(seconds)


def _faulty_reply(fault: str, now: int) -> Response:
    match fault:
        case ExchangeFault.BLOCKED_COUNTRY:
            return reply(403, _BLOCKED_COUNTRY, _HTML, X_Cache="Error from cloudfront")
        case ExchangeFault.BLOCKED_ADDRESS:
            return reply(403, envelope(now, code=10018, message="access too frequent"))
        case ExchangeFault.OVERLOADED:
            return reply(429, b"System level frequency protection", TEXT)
        case ExchangeFault.RATE_LIMITED:
            body = envelope(now, code=10006, message="Too many visits!")
            return reply(200, body, X_Bapi_Limit_Reset_Timestamp=str(now + 1000))
        case ExchangeFault.INTERNAL_ERROR:
            return reply(200, envelope(now, code=10016, message="Internal System Error."))
        case _:
            return reply(HTTPStatus.BAD_GATEWAY, _BAD_GATEWAY, _HTML)


def _truncated(status: int, body: bytes) -> Response:
    """A reply that ends in the middle of its JSON, although its length promises all of it."""
    response = reply(status, body)
    response.body = body[: len(body) // 2]
    return response


def _without_rows(body: bytes) -> bytes:
    message = msgspec.json.decode(body)
    if isinstance(message["result"], dict) and "list" in message["result"]:
        message["result"]["list"] = []
    return msgspec.json.encode(message)


@asynccontextmanager
async def running_exchange(
    world: World,
    clock: Clock = system_clock,
    faults: ExchangeFaults | None = None,
    *,
    host: str = HOST,
    port: int = 0,
    push_seconds: float = _PUSH_SECONDS,
) -> AsyncIterator[ExchangeAddress]:
    """Run an exchange until the context ends; port 0 picks a free one."""
    world.simulate_to(clock())
    exchange = ExchangeServer(world, clock, ExchangeFaults() if faults is None else faults)
    async with exchange.running(host, port) as bound:
        tasks = [
            asyncio.create_task(exchange.push(push_seconds)),
            asyncio.create_task(exchange.stream.watch_faults()),
        ]
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            yield ExchangeAddress(host, bound)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("exchange task failed", exc_info=task.exception())


async def run_exchange(world: World, host: str, port: int, clock: Clock = system_clock) -> None:
    """Run an exchange until cancelled.

    Raises:
        OSError: the port is taken.
    """
    async with running_exchange(world, clock, host=host, port=port):
        await asyncio.Event().wait()

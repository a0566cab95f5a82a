"""The simulated exchange: REST, stream and control on one loopback port."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from websockets.http11 import Request, Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import MINUTE, SECOND
from barograph_demo.servers.control import (
    HOST,
    JSON,
    TEXT,
    ServerAddress,
    bad_gateway,
    blocked_country,
    reply,
    truncated,
)
from barograph_demo.servers.distortions import distorted
from barograph_demo.servers.faults import ExchangeFaults, VenueFault
from barograph_demo.servers.listeners import PUSH_SECONDS, StreamServer
from barograph_demo.servers.rest import PATHS, answer, envelope
from barograph_demo.servers.stream import Stream
from barograph_demo.servers.venue_server import Query
from barograph_demo.world.world import World

STREAM_PATH: Final = "/v5/public/linear"

LIMIT_REQUESTS: Final = 600
LIMIT_MS: Final = 5 * SECOND
"""The exchange allows an address 600 requests in five seconds."""

BAN_MS: Final = 10 * MINUTE
"""An address that sends more is refused for ten minutes."""


class ExchangeAddress(ServerAddress):
    """Where a simulated exchange listens."""

    @property
    def stream_url(self) -> str:
        """The URL of the public websocket."""
        return f"ws://{self.host}:{self.port}{STREAM_PATH}"


class ExchangeServer(StreamServer[ExchangeFaults]):
    """Answers REST requests and feeds the stream."""

    paths = PATHS

    def __init__(self, world: World, clock: Clock, faults: ExchangeFaults) -> None:
        super().__init__(clock, faults)
        self._world = world
        self._recent: deque[int] = deque()
        self._banned_until = 0
        self.stream = Stream(world, faults, self.now)

    def is_stream(self, path: str, _request: Request) -> bool:
        """Whether a request opens the venue's websocket."""
        return path == STREAM_PATH

    def refuses_stream(self) -> Response | None:
        """The refusal of a websocket; None opens it."""
        return blocked_country() if self._faults.is_on(VenueFault.BLOCKED_COUNTRY) else None

    def over_limit(self, path: str, _query: Query) -> Response | None:
        """The refusal of an address that is banned."""
        banned = self._is_banned()
        return self.fault_reply(VenueFault.BLOCKED_ADDRESS, path) if banned else None

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

    def answer(self, path: str, query: Query) -> Response:
        """The answer to a request, perhaps distorted."""
        status, body = answer(self._world, path, query, self.now(path), self._faults.closed)
        body = distorted(body, path, self._faults, self.now(path))
        if self._faults.is_on(VenueFault.UNKNOWN_CLASS):
            body = body.replace(b'"symbolType":"forex"', b'"symbolType":"prediction"')
        if self._faults.is_on(VenueFault.ANNOUNCEMENT):
            body = body.replace(b'"state":"completed"', b'"state":"ongoing"')
        if path in PATHS and self._faults.is_on(VenueFault.EMPTY_LIST, path):
            body = _without_rows(body)
        if self._faults.is_on(VenueFault.TRUNCATED, path):
            return truncated(status, body)
        return reply(status, body, JSON if path in PATHS else TEXT)

    def fault_reply(self, fault: str, path: str) -> Response:
        """The reply that a fault sends instead of the answer."""
        now = self.now(path)
        match fault:
            case VenueFault.BLOCKED_COUNTRY:
                return blocked_country()
            case VenueFault.BLOCKED_ADDRESS:
                return reply(403, envelope(now, code=10018, message="access too frequent"))
            case VenueFault.OVERLOADED:
                return reply(429, b"System level frequency protection", TEXT)
            case VenueFault.RATE_LIMITED:
                body = envelope(now, code=10006, message="Too many visits!")
                return reply(200, body, X_Bapi_Limit_Reset_Timestamp=str(now + 1000))
            case VenueFault.INTERNAL_ERROR:
                return reply(200, envelope(now, code=10016, message="Internal System Error."))
            case _:
                return bad_gateway()


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
    push_seconds: float = PUSH_SECONDS,
) -> AsyncIterator[ExchangeAddress]:
    """Run an exchange until the context ends; port 0 picks a free one."""
    world.simulate_to(clock())
    exchange = ExchangeServer(world, clock, ExchangeFaults() if faults is None else faults)
    async with exchange.serving(host, port, push_seconds) as bound:
        yield ExchangeAddress(host, bound)


async def run_exchange(world: World, host: str, port: int, clock: Clock = system_clock) -> None:
    """Run an exchange until cancelled.

    Raises:
        OSError: the port is taken.
    """
    async with running_exchange(world, clock, host=host, port=port):
        await asyncio.Event().wait()

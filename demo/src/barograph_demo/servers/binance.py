"""The simulated Binance USDⓈ-M: REST, stream and control on one loopback port."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from websockets.http11 import Request, Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import MINUTE, SECOND
from barograph_demo.servers.binance_rest import ENDPOINTS, LIMITS, WEIGHT, answer, error_body
from barograph_demo.servers.binance_stream import COMBINED, BinanceStream
from barograph_demo.servers.control import HOST, ServerAddress, reply
from barograph_demo.servers.faults import BinanceFaults, VenueFault
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.listeners import PUSH_SECONDS, StreamServer
from barograph_demo.servers.venue_server import Query
from barograph_demo.world.venues import VenueMarket
from barograph_demo.world.world import World

BAN_MS: Final = 2 * MINUTE
"""How long an address is banned that goes on after it was told to wait."""

_INSISTENT: Final = 1.1
"""An address is banned after this many times what a limit allows."""


class BinanceAddress(ServerAddress):
    """Where a simulated Binance listens."""

    @property
    def stream_url(self) -> str:
        """The URL of the public websocket."""
        return f"ws://{self.host}:{self.port}{COMBINED}"


class BinanceServer(StreamServer[BinanceFaults]):
    """Answers REST requests and feeds the stream."""

    paths = ENDPOINTS

    def __init__(self, world: World, clock: Clock, faults: BinanceFaults) -> None:
        super().__init__(clock, faults)
        self._market = FaultyMarket(VenueMarket(world, faults.venue), faults)
        self._used: dict[str, tuple[int, int]] = {}
        self._banned_until = 0
        self.stream = BinanceStream(self._market, faults, self.now)

    def is_stream(self, _path: str, request: Request) -> bool:
        """A websocket opens under whatever path."""
        return "Upgrade" in request.headers

    def refuses_stream(self) -> Response | None:
        """The refusal of a websocket; None opens it."""
        return _geo_block() if self._faults.is_on(VenueFault.GEO_BLOCK) else None

    def over_limit(self, path: str, query: Query) -> Response | None:
        """The refusal of an address that sends too much: it is told to wait, and then banned."""
        now, endpoint = self._clock(), ENDPOINTS.get(path)
        if endpoint is not None:
            most, span = LIMITS[endpoint.group]
            used = self._use(endpoint.group, endpoint.weight(query), now // span)
            if used > _INSISTENT * most:
                self._banned_until = max(self._banned_until, now + BAN_MS)
            elif used > most:
                return _wait(span - now % span)
        return _banned(self._banned_until, now) if now < self._banned_until else None

    def _use(self, group: str, weight: int, number: int) -> int:
        """Count a request; return what the address has used of a limit in this span of time."""
        known, used = self._used.get(group, (number, 0))
        self._used[group] = (number, weight + (used if known == number else 0))
        return self._used[group][1]

    def answer(self, path: str, query: Query) -> Response:
        """The answer to a request, perhaps distorted."""
        status, body = self.result(path, query)
        used = str(self._used.get(WEIGHT, (0, 0))[1])
        return self.distorted(path, status, body, X_Mbx_Used_Weight_1m=used)

    def result(self, path: str, query: Query) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        return answer(self._market, path, query, self.now(path))

    def fault_reply(self, fault: str, path: str) -> Response:
        """The reply that a fault sends instead of the answer."""
        match fault:
            case VenueFault.GEO_BLOCK:
                return _geo_block()
            case VenueFault.OVERLOADED:
                return _wait(MINUTE)
            case VenueFault.BANNED:
                return _banned(self._clock() + BAN_MS, self._clock())
            case _:
                return super().fault_reply(fault, path)


def _geo_block() -> Response:
    body = error_body(0, "Service unavailable from a restricted location.")
    return reply(HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS, body)


def _wait(milliseconds: int) -> Response:
    limit = f"Too many requests; current limit of IP({HOST}) is 2400 requests per minute."
    return _too_many(HTTPStatus.TOO_MANY_REQUESTS, limit, milliseconds)


def _banned(until: int, now: int) -> Response:
    message = f"Way too many requests; IP({HOST}) banned until {until}."
    return _too_many(HTTPStatus.IM_A_TEAPOT, message, until - now)


def _too_many(status: int, message: str, milliseconds: int) -> Response:
    seconds = math.ceil(milliseconds / SECOND)
    return reply(status, error_body(-1003, message), Retry_After=str(seconds))


@asynccontextmanager
async def running_binance(
    world: World,
    clock: Clock = system_clock,
    faults: BinanceFaults | None = None,
    *,
    host: str = HOST,
    port: int = 0,
    push_seconds: float = PUSH_SECONDS,
) -> AsyncIterator[BinanceAddress]:
    """Run a simulated Binance until the context ends; port 0 picks a free one."""
    server = BinanceServer(world, clock, BinanceFaults() if faults is None else faults)
    world.simulate_to(clock())
    async with server.serving(host, port, push_seconds) as bound:
        yield BinanceAddress(host, bound)

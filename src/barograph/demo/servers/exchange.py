"""The simulated exchange as a server: REST, stream and control on one loopback port."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo.servers import faults as named
from barograph.demo.servers.control import (
    CONTROL_PATH,
    JSON,
    TEXT,
    ControlServer,
    reply,
    reset,
    truncated,
    until_changed,
    without_rows,
    wrong,
)
from barograph.demo.servers.faults import Faults
from barograph.demo.servers.rest import PATHS, answer
from barograph.demo.servers.stream import Stream
from barograph.demo.world.world import World

STREAM_PATH: Final = "/v5/public/linear"

_PUSH_SECONDS: Final = 0.5
_OTHER: Final = "other"

_log = logging.getLogger(__name__)


def real_clock() -> int:
    """The machine's time in milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running exchange is."""

    host: str
    port: int

    @property
    def rest_url(self) -> str:
        """Base address of the REST interface."""
        return f"http://{self.host}:{self.port}"

    @property
    def stream_url(self) -> str:
        """Address of the public websocket."""
        return f"ws://{self.host}:{self.port}{STREAM_PATH}"

    @property
    def control_url(self) -> str:
        """Address for commands."""
        return f"ws://{self.host}:{self.port}{CONTROL_PATH}"


class Exchange(ControlServer):
    """One running exchange: answers requests, feeds listeners, obeys commands."""

    def __init__(self, world: World, clock: Callable[[], int], faults: Faults) -> None:
        super().__init__()
        self._world = world
        self._clock = clock
        self._faults = faults
        self.stream = Stream(world, faults, self.now)

    def now(self, path: str | None = None) -> int:
        """The exchange's time: frozen while its clock is stale."""
        stale = self._faults.find(named.STALE_CLOCK, path)
        return self._clock() if stale is None else stale.since

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""
        parts = urlsplit(request.path)
        if parts.path in {STREAM_PATH, CONTROL_PATH}:
            return None
        path = parts.path
        self.requests[path if path in PATHS else _OTHER] += 1
        while (fault := self._faults.replacing(path)) == named.HANG:
            await until_changed(self._faults, connection)
            if connection.transport.is_closing():
                return reply(503, b"", TEXT)
        if fault == named.RESET:
            return await reset(connection)
        if fault is not None:
            return wrong(fault, self.now(path))
        return self._answer(path, dict(parse_qsl(parts.query, keep_blank_values=True)))

    def _answer(self, path: str, query: dict[str, str]) -> Response:
        status, body = answer(self._world, path, query, self.now(path), self._faults.closed)
        if path in PATHS and self._faults.find(named.EMPTY_LIST, path) is not None:
            body = without_rows(body)
        if self._faults.find(named.TRUNCATED, path) is not None:
            return truncated(status, body)
        return reply(status, body, JSON if path in PATHS else TEXT)

    async def on_websocket(self, connection: ServerConnection) -> None:
        """Stay with a websocket until it ends: a listener's, or one for commands."""
        request = cast("Request", connection.request)
        if urlsplit(request.path).path == STREAM_PATH:
            await self.stream.serve(connection)
        else:
            await super().on_websocket(connection)

    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""
        return self._faults.obey(command, self._clock())

    async def push(self, seconds: float) -> None:
        """Feed the listeners for ever."""
        while True:
            self.stream.pump()
            await asyncio.sleep(seconds)


@asynccontextmanager
async def running_exchange(
    world: World,
    clock: Callable[[], int] = real_clock,
    faults: Faults | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    push_seconds: float = _PUSH_SECONDS,
) -> AsyncIterator[Address]:
    """An exchange for as long as the context lasts; port 0 takes any free one.

    Raises:
        OSError: the port is taken.
    """
    world.reach(clock())
    exchange = Exchange(world, clock, Faults() if faults is None else faults)
    async with exchange.running(host, port) as bound:
        tasks = [
            asyncio.create_task(exchange.push(push_seconds)),
            asyncio.create_task(exchange.stream.watch_faults()),
        ]
        for task in tasks:
            task.add_done_callback(_report)
        try:
            yield Address(host, bound)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("exchange_task_failed", exc_info=task.exception())


async def run_exchange(
    world: World,
    host: str,
    port: int,
    clock: Callable[[], int] = real_clock,
    faults: Faults | None = None,
) -> None:
    """Run an exchange until cancelled.

    Raises:
        OSError: the port is taken.
    """
    async with running_exchange(world, clock, faults, host=host, port=port):
        await asyncio.Event().wait()

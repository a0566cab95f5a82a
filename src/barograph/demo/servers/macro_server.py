"""The published files as a server: files and control on one loopback port."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.demo.servers import macro_faults as named
from barograph.demo.servers.control import (
    CONTROL_PATH,
    TEXT,
    ControlServer,
    ServerAddress,
    after_hanging,
    reply,
    reset,
)
from barograph.demo.servers.exchange import real_clock
from barograph.demo.servers.macro_faults import MacroFaults
from barograph.demo.servers.macro_files import FUND_PATH, FUND_QUERY, answer, file_of
from barograph.demo.world.macro import MacroWorld

_OTHER: Final = "other"
_HTML: Final = "text/html; charset=UTF-8"

_MAINTENANCE: Final = b"""<!DOCTYPE html>
<html lang="en"><head><title>Scheduled maintenance</title></head>
<body><h1>We'll be right back</h1><p>This page is being updated.</p></body></html>
"""


class MacroAddress(ServerAddress):
    """Where a running server of files is."""

    @property
    def fund_url(self) -> str:
        """Address of the fund's newest holdings."""
        return f"{self.url}{FUND_PATH}?{FUND_QUERY}"


class Publisher(ControlServer):
    """One running server: answers requests and obeys commands."""

    def __init__(self, world: MacroWorld, clock: Callable[[], int], faults: MacroFaults) -> None:
        super().__init__()
        self._world = world
        self._clock = clock
        self._faults = faults

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""
        parts = urlsplit(request.path)
        if parts.path == CONTROL_PATH:
            return None
        file = file_of(parts.path)
        self.requests[file or _OTHER] += 1
        replacing = partial(self._faults.replacing, file)
        match await after_hanging(self._faults, replacing, connection):
            case named.RESET:
                return await reset(connection)
            case named.HANG | named.OUTAGE:
                return reply(HTTPStatus.SERVICE_UNAVAILABLE, b"service unavailable\n", TEXT)
            case named.HTML:
                return reply(HTTPStatus.OK, _MAINTENANCE, _HTML)
        return self._answer(file, parts.path, parts.query)

    def _answer(self, file: str | None, path: str, query: str) -> Response:
        status, kind, body = answer(
            self._world,
            path,
            dict(parse_qsl(query, keep_blank_values=True)),
            self._clock() - self._faults.delay(file),
            self._faults.distortion(file),
        )
        return reply(status, body, kind)

    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""
        return self._faults.obey(command, self._clock())


@asynccontextmanager
async def running_macro(
    world: MacroWorld,
    faults: MacroFaults | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Callable[[], int] = real_clock,
) -> AsyncIterator[MacroAddress]:
    """A server of files for as long as the context lasts; port 0 takes any free one.

    Raises:
        OSError: the port is taken.
    """
    publisher = Publisher(world, clock, MacroFaults() if faults is None else faults)
    async with publisher.running(host, port) as bound:
        yield MacroAddress(host, bound)

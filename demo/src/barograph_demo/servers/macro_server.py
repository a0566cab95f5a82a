"""The simulated publishers of macro data: files and control on one loopback port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barograph.kit.clock import Clock, system_clock
from barograph_demo.servers.control import (
    HOST,
    HTML,
    OTHER,
    GetServer,
    ServerAddress,
    reply,
    reset,
    unavailable,
)
from barograph_demo.servers.faults import MacroFault, MacroFaults
from barograph_demo.servers.macro_files import answer, file_of
from barograph_demo.world.macro import MacroWorld

_MAINTENANCE: Final = b"""<!DOCTYPE html>
<html lang="en"><head><title>Scheduled maintenance</title></head>
<body><h1>We'll be right back</h1><p>This page is being updated.</p></body></html>
"""


class MacroServer(GetServer[MacroFaults]):
    """Serves the files of all publishers."""

    def __init__(self, world: MacroWorld, clock: Clock, faults: MacroFaults) -> None:
        super().__init__(clock, faults)
        self._world = world

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET."""
        parts = urlsplit(request.path)
        file = file_of(parts.path)
        self.requests[file or OTHER] += 1
        match await self._fault_after_hanging(connection, file):
            case MacroFault.RESET:
                return await reset(connection)
            case MacroFault.HANG | MacroFault.OUTAGE:
                return unavailable()
            case MacroFault.HTML:
                return reply(HTTPStatus.OK, _MAINTENANCE, HTML)
        status, kind, body = answer(
            self._world,
            parts.path,
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            self._clock() - self._faults.delay(file),
            self._faults.distortion(file),
        )
        return reply(status, body, kind)


@asynccontextmanager
async def running_macro(
    world: MacroWorld,
    faults: MacroFaults | None = None,
    port: int = 0,
    clock: Clock = system_clock,
) -> AsyncIterator[ServerAddress]:
    """Run the publishers until the context ends; port 0 picks a free one."""
    server = MacroServer(world, clock, MacroFaults() if faults is None else faults)
    async with server.running(HOST, port) as bound:
        yield ServerAddress(HOST, bound)

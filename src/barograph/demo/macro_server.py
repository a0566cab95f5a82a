"""The published files as a server: files and control on one loopback port."""

import asyncio
import logging
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakSet

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from barograph.demo import macro_faults as named
from barograph.demo.control import CONTROL_PATH
from barograph.demo.exchange import real_clock
from barograph.demo.macro import MacroWorld
from barograph.demo.macro_faults import MacroFaults, obey
from barograph.demo.macro_files import FUND_PATH, FUND_QUERY, answer, file_of
from barograph.demo.replies import TEXT, reply

_OTHER: Final = "other"
_HTML: Final = "text/html; charset=UTF-8"
_FAREWELL_SECONDS: Final = 0.3

_MAINTENANCE: Final = b"""<!DOCTYPE html>
<html lang="en"><head><title>Scheduled maintenance</title></head>
<body><h1>We'll be right back</h1><p>This page is being updated.</p></body></html>
"""

_quiet = logging.getLogger(f"{__name__}.connections")
_quiet.setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class MacroAddress:
    """Where a running server of files is."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Base address of the Treasury's and the New York Fed's files."""
        return f"http://{self.host}:{self.port}"

    @property
    def fund_url(self) -> str:
        """Address of the fund's newest holdings."""
        return f"{self.url}{FUND_PATH}?{FUND_QUERY}"

    @property
    def control_url(self) -> str:
        """Address for commands."""
        return f"ws://{self.host}:{self.port}{CONTROL_PATH}"


class Publisher:
    """One running server: answers requests and obeys commands."""

    def __init__(self, world: MacroWorld, clock: Callable[[], int], faults: MacroFaults) -> None:
        self._world = world
        self._clock = clock
        self._faults = faults
        self._requests: Counter[str] = Counter()
        self._connections: WeakSet[ServerConnection] = WeakSet()

    def track(self, *args: object, **kwargs: object) -> ServerConnection:
        """Make a connection and remember it, so that the end finds the hanging ones too."""
        connection = ServerConnection(*args, **kwargs)  # type: ignore[arg-type]
        self._connections.add(connection)
        return connection

    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""
        parts = urlsplit(request.path)
        if parts.path == CONTROL_PATH:
            return None
        file = file_of(parts.path)
        self._requests[file or _OTHER] += 1
        while (fault := self._faults.replacing(file)) == named.HANG:
            await self._until_changed(connection)
            if connection.transport.is_closing():
                return reply(503, b"", TEXT)
        match fault:
            case named.RESET:
                return await _reset(connection)
            case named.OUTAGE:
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

    async def _until_changed(self, connection: ServerConnection) -> None:
        waiting = {
            asyncio.ensure_future(self._faults.changed()),
            asyncio.ensure_future(connection.wait_closed()),
        }
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def on_control(self, connection: ServerConnection) -> None:
        """Obey the commands of a control connection until it ends."""
        try:
            async for message in connection:
                await connection.send(msgspec.json.encode(self._command(message)).decode())
        except ConnectionClosed:
            pass

    def _command(self, message: str | bytes) -> dict[str, object]:
        try:
            command = msgspec.json.decode(message, type=dict[str, object])
        except msgspec.MsgspecError:
            command = {}
        if command.get("count") is True:
            return {"requests": dict(self._requests)}
        return obey(self._faults, command, self._clock())

    async def end(self, server: Server) -> None:
        """Stop at once, cutting off whoever hangs."""
        server.close()
        closed = asyncio.ensure_future(server.wait_closed())
        await asyncio.wait({closed}, timeout=_FAREWELL_SECONDS)
        for connection in list(self._connections):
            if hasattr(connection, "transport"):
                connection.transport.abort()
        await closed


async def _reset(connection: ServerConnection) -> Response:
    """End the connection with a TCP reset: lingering for zero seconds is how to ask for one."""
    transport = connection.transport
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()
    await connection.wait_closed()
    return reply(503, b"", TEXT)


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
    server = await serve(
        publisher.on_control,
        host,
        port,
        process_request=publisher.on_request,
        create_connection=cast("type[ServerConnection]", publisher.track),
        # A request may hang for as long as a fault wants it to.
        open_timeout=None,
        ping_interval=None,
        compression=None,
        server_header=None,
        logger=_quiet,
    )
    try:
        yield MacroAddress(host, server.sockets[0].getsockname()[1])
    finally:
        await publisher.end(server)

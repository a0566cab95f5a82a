"""A simulated server on one loopback port: HTTP requests, and a control connection for faults."""

import asyncio
import logging
import socket
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from barograph.demo.control import CONTROL_PATH
from barograph.demo.replies import TEXT, reply

HANG: Final = "hang"

_FAREWELL_SECONDS: Final = 0.3

# websockets tells of every request at INFO; a demo that is polled each second would drown in it.
_quiet = logging.getLogger(f"{__name__}.connections")
_quiet.setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a simulated server is."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Base address of what it serves."""
        return f"http://{self.host}:{self.port}"

    @property
    def control_url(self) -> str:
        """Address for commands."""
        return f"ws://{self.host}:{self.port}{CONTROL_PATH}"


class Changing(Protocol):
    """Faults that can be waited for."""

    def changed(self) -> Coroutine[object, object, object]:
        """Wait until some fault is switched on or off."""


class ControlServer(ABC):
    """What every simulated server does: count, hang, reset, obey and end."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self._connections: WeakSet[ServerConnection] = WeakSet()

    @abstractmethod
    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""

    @abstractmethod
    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""

    async def on_websocket(self, connection: ServerConnection) -> None:
        """Obey the commands of a control connection until it ends."""
        try:
            async for message in connection:
                await connection.send(msgspec.json.encode(self._command(message)).decode())
        except ConnectionClosed:
            pass

    async def _unless_web_page(
        self, connection: ServerConnection, request: Request
    ) -> Response | None:
        """Refuse commands from web pages: browsers let any page connect to loopback."""
        if urlsplit(request.path).path == CONTROL_PATH and "Origin" in request.headers:
            return reply(HTTPStatus.FORBIDDEN, b"web pages can't send commands\n", TEXT)
        return await self.on_request(connection, request)

    def _command(self, message: str | bytes) -> dict[str, object]:
        try:
            command = msgspec.json.decode(message, type=dict[str, object])
        except msgspec.MsgspecError:
            command = {}
        if command.get("count") is True:
            return {"requests": dict(self.requests)}
        return self.obey(command)

    def _track(self, *args: object, **kwargs: object) -> ServerConnection:
        """Make a connection and remember it, so that the end finds the hanging ones too."""
        connection = ServerConnection(*args, **kwargs)  # type: ignore[arg-type]
        self._connections.add(connection)
        return connection

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve for as long as the context lasts; gives the port, any free one for 0.

        Raises:
            OSError: the port is taken.
        """
        server = await serve(
            self.on_websocket,
            host,
            port,
            process_request=self._unless_web_page,
            create_connection=cast("type[ServerConnection]", self._track),
            # A request may hang for as long as a fault wants it to.
            open_timeout=None,
            ping_interval=None,
            compression=None,
            server_header=None,
            logger=_quiet,
        )
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            await self._end(server)

    async def _end(self, server: Server) -> None:
        """Stop at once: say goodbye to listeners, cut off whoever hangs or does not answer."""
        server.close()
        closed = asyncio.ensure_future(server.wait_closed())
        await asyncio.wait({closed}, timeout=_FAREWELL_SECONDS)
        for connection in list(self._connections):
            if hasattr(connection, "transport"):
                connection.transport.abort()
        await closed


async def until_changed(faults: Changing, connection: ServerConnection) -> None:
    """Wait until a fault is switched, or whoever waits has gone."""
    waiting = {
        asyncio.ensure_future(faults.changed()),
        asyncio.ensure_future(connection.wait_closed()),
    }
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def after_hanging(
    faults: Changing, replacing: Callable[[], str | None], connection: ServerConnection
) -> str | None:
    """Hang for as long as that is the fault that replaces answers; then tell which one does.

    It is still hanging when whoever waits has gone: what is answered then reaches nobody.
    """
    while (fault := replacing()) == HANG and not connection.transport.is_closing():
        await until_changed(faults, connection)
    return fault


async def reset(connection: ServerConnection) -> Response:
    """End the connection with a TCP reset: lingering for zero seconds is how to ask for one."""
    transport = connection.transport
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()
    await connection.wait_closed()
    return reply(503, b"", TEXT)

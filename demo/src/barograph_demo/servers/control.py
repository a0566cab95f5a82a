"""What every simulated server does: count requests, hang, reset and obey a control connection."""

import asyncio
import email.utils
import logging
import socket
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.http11 import Request, Response
from websockets.sync.client import connect

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph_demo.servers.faults import Faults

HOST: Final = "127.0.0.1"
CONTROL_PATH: Final = "/control"
OTHER: Final = "other"
"""Requests for unknown paths are counted under this name."""

HANG: Final = "hang"
SLOW: Final = "slow"
STALE_CLOCK: Final = "stale-clock"
SLOW_SECONDS: Final = 1.5
"""How long a slow reply takes: less than the reader's timeout, even for two calls in a row."""

JSON: Final = "application/json; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain"

_BLOCKED_COUNTRY: Final = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY>
<H1>403 ERROR</H1><H2>The request could not be satisfied.</H2>
The Amazon CloudFront distribution is configured to block access from your country.
</BODY></HTML>
"""
_BAD_GATEWAY: Final = b"""<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center></body></html>
"""

_COMMAND_SECONDS: Final = 3.0
_CLOSE_SECONDS: Final = 0.3

# websockets logs every request at INFO, which is too much for a demo that is polled each second.
_quiet = logging.getLogger(f"{__name__}.connections")
_quiet.setLevel(logging.WARNING)

F = TypeVar("F", bound=Faults)


def send_command(address: str, command: Mapping[str, object]) -> dict[str, object]:
    """Send one command to the server at `host:port` or at any of its URLs; return its reply.

    Raises:
        ConfigurationError: no simulated server answers there.
    """
    place = urlsplit(address if "//" in address else f"//{address}").netloc
    try:
        with connect(
            f"ws://{place}{CONTROL_PATH}",
            open_timeout=_COMMAND_SECONDS,
            proxy=None,
            compression=None,
        ) as connection:
            connection.send(msgspec.json.encode(command).decode())
            return msgspec.json.decode(connection.recv(_COMMAND_SECONDS), type=dict[str, object])
    except (OSError, WebSocketException, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"no simulated server answers at {place} ({error}); is the demo running?"
        ) from error


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a simulated server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://{self.host}:{self.port}"

    @property
    def control_url(self) -> str:
        """The URL for commands."""
        return f"ws://{self.host}:{self.port}{CONTROL_PATH}"


def reply(status: int, body: bytes, kind: str = JSON, **headers: str) -> Response:
    """An HTTP reply that closes the connection."""
    fields = Headers(
        [
            ("Date", email.utils.formatdate(usegmt=True)),
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
    )
    for name, value in headers.items():
        fields[name.replace("_", "-")] = value
    return Response(int(status), HTTPStatus(status).phrase, fields, body)


def unavailable() -> Response:
    """A 503 reply."""
    return reply(HTTPStatus.SERVICE_UNAVAILABLE, b"service unavailable\n", TEXT)


def truncated(status: int, body: bytes) -> Response:
    """A reply that ends in the middle, although its length promises all of it."""
    response = reply(status, body)
    response.body = body[: len(body) // 2]
    return response


def bad_gateway() -> Response:
    """A 502 reply."""
    return reply(HTTPStatus.BAD_GATEWAY, _BAD_GATEWAY, HTML)


def blocked_country() -> Response:
    """The 403 reply of a content network that blocks a country."""
    return reply(403, _BLOCKED_COUNTRY, HTML, X_Cache="Error from cloudfront")


class CommandedServer(ABC, Generic[F]):
    """A server whose requests are counted and whose faults are switched by commands."""

    def __init__(self, clock: Clock, faults: F) -> None:
        self.requests: Counter[str] = Counter()
        self._clock = clock
        self._faults = faults

    def now(self, target: str | None = None) -> int:
        """The server's time, which the stale-clock fault freezes."""
        stale = self._faults.find(STALE_CLOCK, target)
        return self._clock() if stale is None else stale.since

    def execute(self, message: str | bytes) -> bytes:
        """Execute a command of the control connection and return the reply to it."""
        try:
            command = msgspec.json.decode(message, type=dict[str, object])
        except msgspec.MsgspecError:
            command = {}
        return msgspec.json.encode(self.obey(command))

    def obey(self, command: Mapping[str, object]) -> dict[str, object]:
        """The reply to a command."""
        if command.get("count") is True:
            return {"requests": dict(self.requests)}
        return self._faults.execute(command, self._clock())


class GetServer(CommandedServer[F]):
    """Answers GET requests and websockets."""

    def __init__(self, clock: Clock, faults: F) -> None:
        super().__init__(clock, faults)
        self._connections: WeakSet[ServerConnection] = WeakSet()

    @abstractmethod
    async def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a GET; None lets a websocket open."""

    async def on_websocket(self, connection: ServerConnection) -> None:
        """Execute the commands of a control connection until it closes."""
        try:
            async for message in connection:
                await connection.send(self.execute(message).decode())
        except ConnectionClosed:
            pass

    async def _process_request(
        self, connection: ServerConnection, request: Request
    ) -> Response | None:
        if urlsplit(request.path).path != CONTROL_PATH:
            return await self.on_request(connection, request)
        # Browsers let any web page connect to loopback, and always send its origin.
        if "Origin" in request.headers:
            return reply(HTTPStatus.FORBIDDEN, b"web pages can't send commands\n", TEXT)
        return None

    async def _fault_after_hanging(
        self, connection: ServerConnection, target: str | None = None
    ) -> str | None:
        """Wait if requests are slow or hang; return the fault that then replaces the reply."""
        if self._faults.is_on(SLOW, target):
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOW_SECONDS):
                    await until_changed(self._faults, connection)
        while (fault := self._faults.replacing(target)) == HANG:
            if connection.transport.is_closing():
                break  # the reply reaches nobody
            await until_changed(self._faults, connection)
        return fault

    def _track(self, *args: object, **kwargs: object) -> ServerConnection:
        """Create a connection and remember it, so that shutdown finds the hanging ones too."""
        connection = ServerConnection(*args, **kwargs)  # type: ignore[arg-type]
        self._connections.add(connection)
        return connection

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve until the context ends. Yields the port; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        server = await serve(
            self.on_websocket,
            host,
            port,
            process_request=self._process_request,
            create_connection=cast("type[ServerConnection]", self._track),
            open_timeout=None,  # a fault may let a request hang for as long as it is on
            ping_interval=None,
            compression=None,
            server_header=None,
            logger=_quiet,
        )
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            await self._stop(server)

    async def _stop(self, server: Server) -> None:
        """Close every connection, and abort those that don't react at once."""
        server.close()
        closed = asyncio.ensure_future(server.wait_closed())
        await asyncio.wait({closed}, timeout=_CLOSE_SECONDS)
        for connection in list(self._connections):
            if hasattr(connection, "transport"):
                connection.transport.abort()
        await closed


async def until_changed(faults: Faults, connection: ServerConnection) -> None:
    """Wait until a fault is switched or the client disconnects."""
    waiting = {
        asyncio.ensure_future(faults.changed()),
        asyncio.ensure_future(connection.wait_closed()),
    }
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def reset(connection: ServerConnection) -> Response:
    """Close the connection with a TCP reset."""
    abort(connection.transport)
    await connection.wait_closed()
    return unavailable()


def abort(transport: asyncio.WriteTransport) -> None:
    """Send a TCP reset, which is what a linger time of zero means."""
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()

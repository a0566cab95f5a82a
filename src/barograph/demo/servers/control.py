"""Commands for a running exchange, from another process."""

import asyncio
import email.utils
import logging
import socket
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.http11 import Request, Response
from websockets.sync.client import connect

from barograph.demo.servers.rest import envelope
from barograph.errors import ConfigurationError

CONTROL_PATH: Final = "/control"
_PATIENCE: Final = 3.0


def send_command(address: str, command: Mapping[str, object]) -> dict[str, object]:
    """Send one command to the exchange at `host:port` (or any of its addresses); return its reply.

    Raises:
        ConfigurationError: no simulated exchange answers there.
    """
    place = urlsplit(address if "//" in address else f"//{address}").netloc
    try:
        with connect(
            f"ws://{place}{CONTROL_PATH}", open_timeout=_PATIENCE, proxy=None, compression=None
        ) as connection:
            connection.send(msgspec.json.encode(command).decode())
            return msgspec.json.decode(connection.recv(_PATIENCE), type=dict[str, object])
    except (OSError, WebSocketException, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"no simulated exchange answers at {place} ({error}); is the demo running?"
        ) from error


JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain"
_HTML: Final = "text/html"

_CLOUDFRONT: Final = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY>
<H1>403 ERROR</H1><H2>The request could not be satisfied.</H2>
The Amazon CloudFront distribution is configured to block access from your country.
</BODY></HTML>
"""
_BAD_GATEWAY: Final = b"""<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center></body></html>
"""


def reply(status: int, body: bytes, kind: str = JSON, **headers: str) -> Response:
    """A plain HTTP reply, after which the connection is closed."""
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


def wrong(fault: str, now: int) -> Response:
    """The reply that a fault gives in the exchange's stead."""
    match fault:
        case "403-html":
            return reply(403, _CLOUDFRONT, _HTML, X_Cache="Error from cloudfront")
        case "403-json":
            return reply(403, envelope(now, code=10018, message="access too frequent"))
        case "429":
            return reply(429, b"System level frequency protection", TEXT)
        case "10006":
            body = envelope(now, code=10006, message="Too many visits!")
            return reply(200, body, X_Bapi_Limit_Reset_Timestamp=str(now + 1000))
        case "10016":
            return reply(200, envelope(now, code=10016, message="Internal System Error."))
        case _:
            return reply(502, _BAD_GATEWAY, _HTML)


def truncated(status: int, body: bytes) -> Response:
    """A reply that breaks off in the middle of its JSON, although it promised all of it."""
    response = reply(status, body)
    response.body = body[: len(body) // 2]
    return response


def without_rows(body: bytes) -> bytes:
    """The same answer, its list empty."""
    message = msgspec.json.decode(body)
    if isinstance(message["result"], dict) and "list" in message["result"]:
        message["result"]["list"] = []
    return msgspec.json.encode(message)


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

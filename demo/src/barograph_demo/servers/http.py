"""A simulated server that takes request bodies: HTTP/1.1, one request per connection.

The websockets library reads no bodies, so requests are parsed here. A request for the control path
becomes a websocket, as on every simulated server.
"""

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Upgrade
from websockets.http11 import Response
from websockets.server import ServerProtocol

from barograph_demo.servers.control import CONTROL_PATH, TEXT, CommandedServer, F, abort, reply

MAX_HEAD_BYTES: Final = 16_384
MAX_BODY_BYTES: Final = 65_536

_READ_SECONDS: Final = 10.0
_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,2000}) HTTP/1\.1")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~\x80-\xff]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class BodyRequest:
    """A request; `path` is without the query."""

    method: str
    path: str
    body: bytes


async def stays_until(
    client: asyncio.StreamReader, event: Coroutine[object, object, object]
) -> bool:
    """Wait for an event; False if the client disconnects first."""
    awaited = asyncio.ensure_future(event)
    # The client has sent everything, so whatever is read now means a disconnect.
    left = asyncio.ensure_future(client.read(1))
    try:
        await asyncio.wait({awaited, left}, return_when=asyncio.FIRST_COMPLETED)
        return not left.done()
    finally:
        awaited.cancel()
        left.cancel()
        await asyncio.gather(awaited, left, return_exceptions=True)


class ResetConnection(Exception):
    """The server closes the connection with a TCP reset instead of a reply."""


class BodyServer(CommandedServer[F]):
    """Parses requests strictly and answers them."""

    @abstractmethod
    async def respond(self, request: BodyRequest, client: asyncio.StreamReader) -> Response | None:
        """Answer a request; None closes the connection without a reply.

        Raises:
            ResetConnection: a fault resets the connection.
        """

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve until the context ends. Yields the port; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        sessions: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            session = asyncio.ensure_future(self._session(reader, writer))
            sessions.add(session)
            session.add_done_callback(sessions.discard)
            await asyncio.wait({session})

        server = await asyncio.start_server(serve, host, port, limit=MAX_HEAD_BYTES)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for session in sessions:
                session.cancel()
            await asyncio.gather(*sessions, return_exceptions=True)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, EOFError, TimeoutError):
            try:
                await self._handle(reader, writer)
                await writer.drain()
            except ResetConnection:
                abort(writer.transport)
            finally:
                writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                head, request = await _read(reader)
        except ValueError as error:
            refused = reply(HTTPStatus.BAD_REQUEST, f"{error}\n".encode(), TEXT)
            writer.write(refused.serialize())
            return
        if request.path == CONTROL_PATH:
            await self._control(head, reader, writer)
            return
        response = await self.respond(request, reader)
        if response is not None:
            writer.write(response.serialize())

    async def _control(
        self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Execute the commands of a control connection until it closes."""
        # Browsers let any web page connect to loopback, and always send its origin.
        protocol = ServerProtocol(origins=[None])
        while data:
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Upgrade):
                    protocol.send_response(protocol.accept(event))
                elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    protocol.send_text(self.execute(bytes(event.data)))
            for sent in protocol.data_to_send():
                if not sent:  # the protocol signals the end of the connection
                    return
                writer.write(sent)
            await writer.drain()
            data = await reader.read(MAX_HEAD_BYTES)


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, BodyRequest]:
    """Read a request; return its head as received, too.

    Raises:
        ValueError: this server doesn't accept the request.
    """
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError as error:
        raise ValueError("the head is too large") from error
    first, *lines = head.removesuffix(_END).split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise ValueError("the request line is not HTTP/1.1")
    body = await reader.readexactly(_body_length(lines))
    return head, BodyRequest(found[1].decode(), found[2].decode().partition("?")[0], body)


def _body_length(lines: list[bytes]) -> int:
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise ValueError("a header field is malformed")
        fields.append((found[1].lower(), found[2].strip()))
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise ValueError("a body needs a Content-Length")
    lengths = [value for name, value in fields if name == b"content-length"]
    if not lengths:
        return 0
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise ValueError("the Content-Length is malformed")
    if int(lengths[0]) > MAX_BODY_BYTES:
        raise ValueError("the body is too large")
    return int(lengths[0])

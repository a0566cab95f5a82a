"""A simulated server that takes requests with a body: HTTP/1.1, one request a connection.

A connection to the control path becomes a websocket, as on every simulated server, so that faults
are switched in the same way everywhere.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Upgrade
from websockets.http11 import Response
from websockets.server import ServerProtocol

from barograph.demo.servers.control import CONTROL_PATH, TEXT, reply

MAX_HEAD_BYTES: Final = 16_384
MAX_BODY_BYTES: Final = 65_536

_READ_SECONDS: Final = 10.0
_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,2000}) HTTP/1\.1")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~\x80-\xff]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked for; `path` without the query."""

    method: str
    path: str
    body: bytes


class Caller:
    """Whoever waits for an answer."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def stays_until(self, event: Coroutine[object, object, object]) -> bool:
        """Wait for an event; False when the caller left first."""
        awaited = asyncio.ensure_future(event)
        # Nothing more is expected of the caller, so whatever is read means the end.
        left = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({awaited, left}, return_when=asyncio.FIRST_COMPLETED)
            return not left.done()
        finally:
            awaited.cancel()
            left.cancel()
            await asyncio.gather(awaited, left, return_exceptions=True)


class HttpServer(ABC):
    """Reads requests strictly, answers, obeys and ends."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    @abstractmethod
    async def respond(self, request: Request, caller: Caller) -> Response | None:
        """Answer a request; None hangs up without a word."""

    @abstractmethod
    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve for as long as the context lasts; gives the port, any free one for 0.

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
                await self._talk(reader, writer)
                await writer.drain()
            finally:
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                head, request = await _read(reader)
        except ValueError as error:
            refused = reply(HTTPStatus.BAD_REQUEST, f"{error}\n".encode(), TEXT)
            writer.write(refused.serialize())
            return
        if request.path == CONTROL_PATH:
            await self._converse(head, reader, writer)
            return
        response = await self.respond(request, Caller(reader))
        if response is not None:
            writer.write(response.serialize())

    async def _converse(
        self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Obey the commands of a control connection until it ends."""
        # Browsers let any page connect to loopback, and always name its origin.
        protocol = ServerProtocol(origins=[None])
        while data:
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Upgrade):
                    protocol.send_response(protocol.accept(event))
                elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    protocol.send_text(self._obeyed(bytes(event.data)))
            for sent in protocol.data_to_send():
                if not sent:  # the protocol's way to say that this is the end
                    return
                writer.write(sent)
            await writer.drain()
            data = await reader.read(MAX_HEAD_BYTES)

    def _obeyed(self, message: bytes) -> bytes:
        try:
            command = msgspec.json.decode(message, type=dict[str, object])
        except msgspec.MsgspecError:
            command = {}
        if command.get("count") is True:
            return msgspec.json.encode({"requests": dict(self.requests)})
        return msgspec.json.encode(self.obey(command))


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, Request]:
    """A request, and its head as it came.

    Raises:
        ValueError: it is no request of the kind that is served here.
    """
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError as error:
        raise ValueError("the head is too large") from error
    first, *lines = head.removesuffix(_END).split(b"\r\n")
    named = _REQUEST.fullmatch(first)
    if named is None:
        raise ValueError("that is no request line of HTTP/1.1")
    body = await reader.readexactly(_length(_fields(lines)))
    return head, Request(named[1].decode(), named[2].decode().partition("?")[0], body)


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    found = [_FIELD.fullmatch(line) for line in lines]
    if not all(found):
        raise ValueError("that is no field")
    return [(field[1].lower(), field[2].strip()) for field in found if field is not None]


def _length(fields: list[tuple[bytes, bytes]]) -> int:
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise ValueError("a body must have a length")
    lengths = [value for name, value in fields if name == b"content-length"]
    if not lengths:
        return 0
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise ValueError("that is no length")
    if int(lengths[0]) > MAX_BODY_BYTES:
        raise ValueError("the body is too large")
    return int(lengths[0])

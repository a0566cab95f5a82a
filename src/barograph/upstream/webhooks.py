"""Sends webhooks to addresses that strangers chose.

Each attempt resolves the name, checks every address and connects to a checked one, so a name that
changes between check and connection gains nothing. It uses sockets and not our HTTP client, which
would parse any number of interim responses (103).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import ip_address

import h11

from barograph.errors import (
    Forbidden,
    InvalidReply,
    InvalidRequest,
    UnknownToUpstream,
    Unreachable,
)
from barograph.kit.http_client import tls_context
from barograph.webhooks.records import Reply
from barograph.webhooks.targets import IpAddress, Target, is_allowed, parse_target

CONNECT_SECONDS = 3.0
TOTAL_SECONDS = 10.0
BODY_SECONDS = 2.0
"""Only a challenge needs the body, so a slow one doesn't occupy us for longer."""

MAX_REPLY = 16 * 1024
"""The most bytes to read of a response, including its header."""

MAX_ADDRESSES = 3
"""How many addresses of a name to try."""

RESOLVERS = 64
"""Threads for name resolution: more than attempts, because a lookup can outlast its attempt."""

_FIELDS = [("Content-Type", "application/json"), ("Connection", "close")]

Resolve = Callable[[str, int], Awaitable[list[IpAddress]]]


class PrivateTarget(Forbidden):
    """The address is not public, so nothing was sent."""

    kind = "private address"


class UnknownHost(UnknownToUpstream):
    """The name has no address."""

    kind = "host name not found"


class TimedOut(Unreachable):
    """The endpoint did not answer in time."""

    kind = "timeout"


class HttpWebhookSender:
    """Sends one request per connection, without redirects, proxies and cookies."""

    def __init__(
        self,
        *,
        user_agent: str,
        allow_local: bool = False,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
        seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._user_agent = user_agent
        self._allow_local = allow_local
        self._threads = ThreadPoolExecutor(RESOLVERS, "webhook-dns")
        self._resolve = resolve or self._resolve_name
        self._tls = tls or tls_context()
        self._seconds = seconds

    async def post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        """Send one request and read the start of the answer. No error contains the URL.

        Raises:
            PrivateTarget: the name has an address that is not public.
            UnknownHost: the name has no address.
            Unreachable: no connection, or no status in time.
            InvalidReply: the answer is not HTTP, or its header is too long.
        """
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await self._post(url, fields, body, limit)
        except TimeoutError as error:
            raise TimedOut("no answer in time") from error
        except h11.ProtocolError as error:
            raise InvalidReply("the answer is not HTTP") from error
        except (OSError, ValueError) as error:
            # Only its type: the text of some of these holds the address.
            raise Unreachable(f"no answer ({type(error).__name__})") from None

    def close(self) -> None:
        """Release the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _post(
        self, url: str, fields: dict[str, str], body: bytes, limit: asyncio.Timeout
    ) -> Reply:
        target, addresses = await self._checked(url)
        reader, writer = await self._connect(target, addresses)
        try:
            own = {"Host": target.authority, "User-Agent": self._user_agent}
            head = [*own.items(), *fields.items(), ("Content-Length", str(len(body)))]
            request = h11.Request(method="POST", target=target.path, headers=[*head, *_FIELDS])
            connection = h11.Connection(h11.CLIENT)
            for event in (request, h11.Data(body), h11.EndOfMessage()):
                writer.write(connection.send(event) or b"")
            events = _events(connection, reader)
            status = await _read_status(events)
            limit.reschedule(None)  # the status counts, however slowly the body comes
            return Reply(status, await _read_body(events, min(BODY_SECONDS, self._seconds)))
        finally:
            writer.transport.abort()

    async def _checked(self, url: str) -> tuple[Target, list[IpAddress]]:
        """The addresses of a URL, all of which may be connected to."""
        try:
            target = parse_target(url, allow_local=self._allow_local)
        except InvalidRequest as error:  # the switch for local addresses was turned off
            raise PrivateTarget(error.message) from error
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = await self._resolve(target.host, target.port)
        if not addresses:
            raise UnknownHost("the name has no address")
        if not all(
            is_allowed(target, address, allow_local=self._allow_local) for address in addresses
        ):
            raise PrivateTarget("the name has an address that is not public")
        return target, addresses[:MAX_ADDRESSES]

    async def _connect(
        self, target: Target, addresses: list[IpAddress]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the addresses; its certificate must be valid for the name."""
        tls, name = (self._tls, target.host) if target.scheme == "https" else (None, None)
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(
                        str(address), target.port, limit=MAX_REPLY, ssl=tls, server_hostname=name
                    )
            except OSError as error:
                failure = error
        raise failure

    async def _resolve_name(self, host: str, port: int) -> list[IpAddress]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            loop = asyncio.get_running_loop()
            places = await loop.run_in_executor(self._threads, ask)
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownHost("the name can't be resolved") from error
        return [ip_address(str(place[0])) for *_, place in places]


async def _events(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> AsyncIterator[h11.Event]:
    """The parts of a response, up to the number of bytes that we read."""
    room = MAX_REPLY
    while not isinstance(event := connection.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
        if isinstance(event, h11.Event):
            yield event
        elif room:
            data = await reader.read(room)
            room -= len(data)
            connection.receive_data(data)
        else:
            break


async def _read_status(events: AsyncIterator[h11.Event]) -> int:
    async for event in events:
        if isinstance(event, h11.Response):
            return event.status_code
    raise InvalidReply("the answer has no end of its header")


async def _read_body(events: AsyncIterator[h11.Event], seconds: float) -> bytes:
    """The start of a body; the rest is never read."""
    start = b""
    with suppress(TimeoutError, OSError, h11.ProtocolError):
        async with asyncio.timeout(seconds):
            async for event in events:
                start += event.data if isinstance(event, h11.Data) else b""
    return start

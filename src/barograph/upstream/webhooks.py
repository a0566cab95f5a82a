"""Sends webhooks to addresses that strangers chose.

Each attempt resolves the name, checks every address and connects to a checked one, so a name that
changes between check and connection gains nothing. A request costs at most ten seconds and 4 KiB.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, ip_address

import httpx2

from barograph.errors import Forbidden, InvalidRequest, UnknownToUpstream, Unreachable
from barograph.upstream.http import tls_context
from barograph.webhooks.records import Reply
from barograph.webhooks.targets import PORTS, IpAddress, Target, is_allowed, parse_target

CONNECT_SECONDS = 3.0
TOTAL_SECONDS = 10.0
MAX_REPLY = 4 * 1024
MAX_ADDRESSES = 3
"""How many addresses of a name are tried."""

RESOLVERS = 8
"""Threads for name resolution, apart from those of the collector's own requests."""

Resolve = Callable[[str, int], Awaitable[list[IpAddress]]]


class PrivateTarget(Forbidden):
    """The address is not public, so nothing was sent."""

    kind = "private address"


class TimedOut(Unreachable):
    """The endpoint did not answer in time."""

    kind = "timeout"


class HttpWebhookSender:
    """Sends one request per connection: no redirect, proxy, cookie or reused connection."""

    def __init__(
        self,
        *,
        user_agent: str,
        allow_local: bool = False,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
        seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._allow_local = allow_local
        self._threads = ThreadPoolExecutor(RESOLVERS, "webhook-dns")
        self._resolve = resolve or self._resolve_name
        self._seconds = seconds
        self._http = httpx2.AsyncClient(
            # A kept connection was verified for one name, and another name may share its address.
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={
                "User-Agent": user_agent,
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",
                "Connection": "close",
            },
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            trust_env=False,
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            verify=tls or tls_context(),
        )

    async def post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        """Send one request and read the start of the answer.

        Raises:
            PrivateTarget: the name has an address that is not public.
            UnknownToUpstream: the name has no address.
            Unreachable: no connection, or no answer in time. No message contains the URL.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, fields, body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise TimedOut("no answer in time") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # Only the name: the text of some of these holds the address.
            raise Unreachable(f"no answer ({type(error).__name__})") from None

    async def close(self) -> None:
        """Release every connection and thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._http.aclose()

    async def _post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        target, addresses = await self._checked(url)
        for address in addresses[:-1]:
            try:
                return await self._post_to(target, address, fields, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nothing was sent
        return await self._post_to(target, addresses[-1], fields, body)

    async def _checked(self, url: str) -> tuple[Target, list[IpAddress]]:
        """The addresses of a URL, all of which may be connected to."""
        try:
            target = parse_target(url, allow_local=self._allow_local)
        except InvalidRequest as error:  # the switch for local addresses was turned off
            raise PrivateTarget(error.message) from error
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await self._resolve(target.host, target.port)
        if not found:
            raise UnknownToUpstream("the name has no address")
        if not all(is_allowed(target, each, allow_local=self._allow_local) for each in found):
            raise PrivateTarget("the name has an address that is not public")
        return target, found[:MAX_ADDRESSES]

    async def _post_to(
        self, target: Target, address: IpAddress, fields: dict[str, str], body: bytes
    ) -> Reply:
        place = str(address) if isinstance(address, IPv4Address) else f"[{address}]"
        host = f"[{target.host}]" if ":" in target.host else target.host
        port = "" if target.port == PORTS[target.scheme] else f":{target.port}"
        async with self._http.stream(
            "POST",
            f"{target.scheme}://{place}:{target.port}{target.path}",
            headers={**fields, "Host": host + port},
            content=body,
            # The certificate is verified against the name, not the address.
            extensions={"sni_hostname": target.host},
        ) as response:
            return Reply(response.status_code, await _start_of(response))

    async def _resolve_name(self, host: str, port: int) -> list[IpAddress]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, ask)
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownToUpstream("the name can't be resolved") from error
        return [ip_address(str(place[0])) for *_, place in found]


async def _start_of(response: httpx2.Response) -> bytes:
    """The first bytes of a body; the rest is never read."""
    start = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for chunk in response.stream:
        start += chunk
        if len(start) >= MAX_REPLY:
            break
    return bytes(start[:MAX_REPLY])

"""What upstream clients share: strict reading, retries, and one JSON request without retries."""

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from random import Random
from typing import Any, NamedTuple, TypeVar

import httpx2
import msgspec

from barograph.errors import BarographError, InvalidReply, Unreachable, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.json import strict_object
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import SECOND

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
Transport = httpx2.AsyncBaseTransport
Sign = Callable[[httpx2.Request], httpx2.Request]
"""Adds what each request needs of its own."""

_GZIP_ONLY = zlib.MAX_WBITS | 16
_USUAL_LIMITS = httpx2.Limits(max_connections=100)


@cache
def tls_context() -> ssl.SSLContext:
    """The trusted certificates, read once per process: it takes 50 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class HttpReply(NamedTuple):
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def http_client(
    transport: Transport | None,
    headers: Mapping[str, str],
    *,
    base_url: str = "",
    limits: httpx2.Limits = _USUAL_LIMITS,
    sign: Sign | None = None,
) -> httpx2.AsyncClient:
    """A client that follows no redirects, keeps no cookies and ignores the environment.

    A cookie from the response to one user must not be sent with another's request.
    """
    return httpx2.AsyncClient(
        transport=transport,
        headers=headers,
        base_url=base_url,
        limits=limits,
        auth=sign,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        trust_env=False,
        verify=tls_context(),
    )


async def fetch(
    client: httpx2.AsyncClient, request: httpx2.Request, seconds: float, longest: int
) -> HttpReply:
    """Send one request and read the whole response.

    Raises:
        InvalidReply: it has more than `longest` bytes, or an encoding other than one whole gzip.
        TimeoutError: `seconds` passed.
        httpx2.RequestError, httpx2.InvalidURL, OSError: there is no whole response.
    """
    async with asyncio.timeout(seconds) as limit:
        response = await client.send(request, stream=True)
        try:
            body = await _read_body(response, longest, limit.when())
        finally:
            await response.aclose()
        return HttpReply(response.status_code, response.headers, body)


def retry_after(headers: Mapping[str, str], usual: float, longest: float) -> float:
    """The seconds that a reply asks us to wait, from 1 to `longest`; `usual` if it does not say."""
    text = headers.get("retry-after", "")
    is_number = text.isascii() and text.isdigit()
    return min(max(float(text[:9]), 1.0), longest) if is_number else usual


def check_status(status: int) -> None:
    """Check the HTTP status of a server that uses the usual ones.

    Raises:
        Unreachable: 5xx.
        InvalidReply: any other status but 200.
    """
    match status:
        case 200:
            return
        case _ if 500 <= status <= 599:  # noqa: PLR2004
            raise Unreachable(f"HTTP {status}")
        case _ if 300 <= status <= 399:  # noqa: PLR2004
            raise InvalidReply(f"HTTP {status}: redirects are not followed")
        case _:
            raise InvalidReply(f"HTTP {status}")


async def _read_body(response: httpx2.Response, longest: int, deadline: float | None) -> bytes:
    names = response.headers.get_list("content-encoding", split_commas=True)
    encodings = [name.lower() for name in names]
    if encodings not in ([], ["identity"], ["gzip"]):
        raise InvalidReply(f"the reply is encoded as {', '.join(encodings)[:40]}")
    gzip = zlib.decompressobj(_GZIP_ONLY) if encodings == ["gzip"] else None
    body, received = bytearray(), 0
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for chunk in response.stream:
        received += len(chunk)
        body += chunk if gzip is None else _unpacked(gzip, chunk, longest + 1 - len(body))
        # Both are counted: gzip can also hold any number of blocks without content.
        if max(received, len(body)) > longest:
            raise InvalidReply(f"the reply is larger than {longest} bytes")
        # httpx2 limits the time of each read, not of a body that comes byte by byte.
        if deadline is not None and asyncio.get_running_loop().time() > deadline:
            raise TimeoutError
    if received and gzip is not None and not gzip.eof:
        raise InvalidReply("the reply's gzip is cut off")
    return bytes(body)


def _unpacked(gzip: "zlib._Decompress", chunk: bytes, most: int) -> bytes:
    try:
        content = gzip.decompress(chunk, most)
    except zlib.error as error:
        raise InvalidReply("the reply's gzip is damaged") from error
    # Once the stream has ended, zlib collects further chunks here without checking them.
    if gzip.unused_data:
        raise InvalidReply("the reply has data after the end of its gzip")
    return content


class TimeBudget:
    """The time left for one reading, including its retries and pages."""

    def __init__(self, seconds: float, clock: Clock, *, patient: bool = False) -> None:
        """`patient` lets one attempt use all of the time."""
        self._seconds = seconds
        self._longest = seconds if patient else seconds / 2
        self._clock = clock
        self._end = clock() + round(seconds * SECOND)

    def left(self) -> float:
        """Seconds that remain; never more than the start value, even if the clock is set back."""
        return min(max((self._end - self._clock()) / SECOND, 0.0), self._seconds)

    def is_half_left(self) -> bool:
        """Whether there is time for optional work."""
        return self.left() >= self._seconds / 2

    def attempt(self) -> float:
        """The timeout of one attempt: at most half of an ordinary budget, so that a retry fits."""
        return min(self.left(), self._longest)


class Retries(NamedTuple):
    """How an upstream is asked again after some failures."""

    attempts: int
    first_backoff: float
    """Seconds; doubled after each attempt."""

    failures: tuple[type[UpstreamError], ...]

    async def run(
        self,
        attempt: Callable[[float], Awaitable[T]],
        budget: TimeBudget,
        sleep: Sleep,
        random: Random,
    ) -> T:
        """Call `attempt` with its timeout until it succeeds, fails otherwise or time runs out."""
        failed = 0
        while True:
            try:
                return await attempt(budget.attempt())
            except self.failures:
                # Full jitter, so that clients that failed together don't retry together.
                pause = random.uniform(0.0, self.first_backoff * 2**failed)
                failed += 1
                if failed == self.attempts or pause >= budget.left():
                    raise
            await sleep(pause)


CONNECT_SECONDS = 2.0
KEEPALIVE_SECONDS = 2.0
"""Shorter than any server keeps an idle connection: if a request meets one that is being closed,
its outcome is unknown."""

MAX_REQUESTS = 32
"""Requests at once. Later ones wait in the pool for a connection before anything is sent."""

_LIMITS = httpx2.Limits(
    max_connections=MAX_REQUESTS,
    max_keepalive_connections=8,
    keepalive_expiry=KEEPALIVE_SECONDS,
)
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
_REDIRECTS = (301, 302, 303, 307, 308)


class NotSent(BarographError):
    """The request was not sent, so it had no effect."""

    status: None = None


class Busy(NotSent):
    """We have too many requests at once; this says nothing about the server."""


class NoAnswer(BarographError):
    """The request may have arrived, and there was no usable response."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of a response that is not JSON."""


class Redirected(NoAnswer):
    """The server redirected us, and we never follow.

    The message doesn't say where to, because an address may contain a key; `location` does.
    """

    def __init__(self, status: int, location: str) -> None:
        super().__init__(f"it redirects to another address (HTTP {status})", status)
        self.location = location


class JsonReply(NamedTuple):
    """A response: one JSON object, whatever the status."""

    status: int
    members: dict[str, Any]


class JsonHttp:
    """Sends one request and reads one JSON object.

    It never retries or follows a redirect, and the text of no error contains an address, a header
    or anything that was sent.
    """

    def __init__(
        self,
        *,
        longest: int,
        headers: Mapping[str, str] | None = None,
        sign: Sign | None = None,
        transport: Transport | None = None,
        upstream: str = "",
        metrics: Metrics = NO_METRICS,
    ) -> None:
        """`upstream` is its name in metrics."""
        self._longest = longest
        self._upstream = upstream
        self._metrics = metrics
        usual = {
            "User-Agent": "barograph",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        headers = usual | dict(headers or {})
        self._http = http_client(transport, headers, sign=sign, limits=_LIMITS)

    async def post(self, address: str, message: Mapping[str, Any], seconds: float) -> JsonReply:
        """Post a JSON object, with a time limit for the whole exchange.

        Raises:
            NotSent: there was no connection; `Busy` if we have too many requests at once.
            NoAnswer: any other failure; `Redirected` if the server redirected us.
        """
        return await self._counted("POST", address, msgspec.json.encode(message), seconds)

    async def get(self, address: str, seconds: float) -> JsonReply:
        """Read an address, with the time limit and errors of `post`."""
        return await self._counted("GET", address, None, seconds)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _counted(
        self, method: str, address: str, content: bytes | None, seconds: float
    ) -> JsonReply:
        with self._metrics.call(self._upstream):
            reply = await self._send(method, address, content, seconds)
        self._metrics.replied(self._upstream, reply.status)
        return reply

    async def _send(
        self, method: str, address: str, content: bytes | None, seconds: float
    ) -> JsonReply:
        # Each wait for a connection ends well before the deadline; after the deadline we could not
        # know whether the request was sent.
        before = min(CONNECT_SECONDS, seconds / 3)
        timeout = httpx2.Timeout(seconds, connect=before, pool=before)
        try:
            request = self._http.build_request(method, address, content=content, timeout=timeout)
            reply = await fetch(self._http, request, seconds, self._longest)
        except httpx2.PoolTimeout as error:
            raise Busy("too much is being asked at once") from error
        except _NOT_SENT as error:
            raise NotSent(f"no connection ({type(error).__name__})") from error
        except TimeoutError as error:
            raise NoAnswer("no answer in time") from error
        except InvalidReply as error:
            raise NoAnswer(str(error)) from error
        except (httpx2.RequestError, OSError) as error:
            # Only the name: the text of some of these holds the address.
            raise NoAnswer(f"the connection broke ({type(error).__name__})") from error
        if reply.status in _REDIRECTS and "location" in reply.headers:
            raise Redirected(reply.status, reply.headers["location"])
        return JsonReply(reply.status, _members(reply.status, reply.body))


def _members(status: int, body: bytes) -> dict[str, Any]:
    try:
        return strict_object(body)
    except ValueError:
        # Without its cause, which may repeat what was sent.
        raise NoAnswer(f"the reply is no JSON object (HTTP {status})", status) from None

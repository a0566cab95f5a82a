"""HTTP for every endpoint: HEAD, OPTIONS, conditional requests, errors and request parameters."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router

from barograph.errors import BodyTooLong, InvalidRequest
from barograph.kit.documents import (
    CORS,
    JSON,
    NO_STORE,
    NOSNIFF,
    PRIVATE,
    SLICE_BYTES,
    Document,
    Headers,
    Message,
    is_unchanged,
    ranged,
    requested_range,
)
from barograph.kit.wire import ErrorBody

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

ALLOW = b"GET, HEAD, OPTIONS"
READS = frozenset({"GET", "HEAD"})
PERCENT = ord("%")
"""A number: searching bytes for an integer is five times as fast as searching for bytes."""

NO_BODY: Message = {"type": "http.response.body", "body": b"", "more_body": False}

_BODY_FIELDS = (b"content-type", b"content-length", b"content-encoding")
_PREFLIGHT_NAMES = b"X-API-Key, If-None-Match, Content-Type, Last-Event-ID"
_ORIGIN_FIELDS = frozenset({b"sec-fetch-site", b"origin", b"host"})
# There is only one way to match, so that a long run of zeros causes no backtracking.
_INTEGER = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)", re.ASCII)


async def send_document(
    document: Document, scope: Scope, send: Send, now: int, extra: Headers | None = None
) -> int:
    """Send a document for GET or HEAD, a part of it, or 304; return the status.

    `extra` fields are about this caller, so the response becomes private to it.
    """
    part = requested_range(scope, document.etag, len(document.body))
    if part is None:  # ranges are of the plain bytes
        document = document.encoded_for(scope["headers"])
    begin, end = document.begin(now), document.end
    if extra:
        begin = {**begin, "headers": [*map(_for_one, begin["headers"]), *extra]}
    if is_unchanged(scope["headers"], document.etag, document.modified):
        fields = [field for field in begin["headers"] if field[0] not in _BODY_FIELDS]
        begin, end = {**begin, "status": 304, "headers": fields}, NO_BODY
    elif part:
        # Not a copy, which each stalled client would hold for itself.
        body = memoryview(document.body)[part.start : part.stop]
        fields = ranged(begin["headers"], part, len(document.body))
        begin, end = {**begin, "status": 206, "headers": fields}, {**end, "body": body}
    elif part is not None:
        refusal = out_of_range(len(document.body))
        begin = {**begin, "status": 416, "headers": refusal.raw_headers}
        end = {**end, "body": refusal.body}
    await send(begin)
    await send_body(end if scope["method"] == "GET" else NO_BODY, send)
    return int(begin["status"])


def _for_one(field: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    name, value = field
    return (name, value.replace(b"public", b"private")) if name == b"cache-control" else field


async def send_body(message: Message, send: Send) -> None:
    """Send a body message, a long one in slices.

    Each `send` waits while the client reads nothing, so a stalled client holds a slice or two in
    memory instead of the whole body.
    """
    body = message.get("body", b"")
    last = max(len(body) - 1, 0) // SLICE_BYTES
    if last == 0 and isinstance(body, bytes):
        await send(message)
        return
    for number in range(last + 1):
        part = bytes(body[number * SLICE_BYTES : (number + 1) * SLICE_BYTES])
        more = number < last or message.get("more_body", False)
        await send({"type": "http.response.body", "body": part, "more_body": more})


def hardened(app: ASGIApp) -> ASGIApp:
    """Add `nosniff` to every response of an application, and send its body in slices."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def forward(message: Message) -> None:
            if message["type"] != "http.response.start":
                await send_body(message, send)
            elif NOSNIFF in message["headers"]:
                await send(message)
            else:
                await send({**message, "headers": [*message["headers"], NOSNIFF]})

        await app(scope, receive, forward if scope["type"] == "http" else send)

    return answer


def error_response(
    status: int, message: str, *headers: tuple[bytes, bytes], is_free: bool = True
) -> Response:
    """An error with the one member `error`, never cached; any origin may read it on free paths."""
    response = Response(ErrorBody(error=message).encode(), status)
    length = (b"content-length", str(len(response.body)).encode())
    response.raw_headers = [(b"content-type", JSON), length, NO_STORE, NOSNIFF, *headers]
    response.raw_headers += CORS if is_free else []
    return response


def out_of_range(size: int) -> Response:
    """The answer to a range that begins after the last byte."""
    field = (b"content-range", b"bytes */%d" % size)
    return error_response(416, f"no byte is in this range: the document has {size:,} bytes", field)


def private_response(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Response:
    """A response of a subscriber or paid endpoint: for this caller only, never cached."""
    response = Response(body, status)
    length = (b"content-length", str(len(body)).encode())
    response.raw_headers = [(b"content-type", JSON), length, PRIVATE, *headers]
    return response


async def read_body(request: Request, longest: int) -> bytes:
    """Read a request's body.

    Raises:
        BodyTooLong: it is longer than `longest`.
        InvalidRequest: the client disconnected half way.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > longest:
                raise BodyTooLong(longest)
    except ClientDisconnect as error:
        raise InvalidRequest("the body ended half way") from error
    return bytes(body)


class DocumentResponse(Response):
    """A route's response: a document, sent as the front door sends it."""

    def __init__(self, document: Document, now: int, extra: Headers | None = None) -> None:
        super().__init__()
        self.document = document
        self._now = now
        self._extra = extra

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send_document(self.document, scope, send, self._now, self._extra)


class DelegatedResponse(Response):
    """Lets another ASGI application respond."""

    def __init__(self, answer: ASGIApp) -> None:
        super().__init__()
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it respond."""
        await self._answer(scope, receive, send)


class _DigestConvertor(StringConvertor):
    regex = "[0-9a-f]{64}"


register_url_convertor("sha256", _DigestConvertor())

Endpoint = TypeVar("Endpoint", bound=Callable[[Request], Awaitable[Response]])


class ApiRoute(Route):
    """A route with the arguments from which FastAPI describes it, if it is described."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        method: str,
        description: dict[str, Any],
    ) -> None:
        super().__init__(path, endpoint)
        # Starlette would add HEAD to GET; `HeadAndOptions` answers HEAD, and only on free paths.
        self.methods = {method}
        self.description = description


class ApiRouter(Router):
    """Collects the endpoints of one part of the service.

    FastAPI's own router analyses endpoints and models again for each application, which takes
    40 ms. Only the OpenAPI document needs that: `discovery/openapi.py` does it once.
    """

    def __init__(self, *, prefix: str = "", tags: list[str] | None = None) -> None:
        super().__init__()
        self._prefix = prefix
        self._tags = tags or []

    def get(self, path: str, **description: object) -> Callable[[Endpoint], Endpoint]:
        """Answer GET; without a description the endpoint is not in the OpenAPI document."""
        return self._adding("GET", path, description)

    def post(self, path: str, **description: object) -> Callable[[Endpoint], Endpoint]:
        """Answer POST."""
        return self._adding("POST", path, description)

    def patch(self, path: str, **description: object) -> Callable[[Endpoint], Endpoint]:
        """Answer PATCH."""
        return self._adding("PATCH", path, description)

    def delete(self, path: str, **description: object) -> Callable[[Endpoint], Endpoint]:
        """Answer DELETE."""
        return self._adding("DELETE", path, description)

    def endpoint(self, path: str) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint at a path, for callers within this process."""
        routes = (route for route in self.routes if isinstance(route, ApiRoute))
        return next(route.endpoint for route in routes if route.path == self._prefix + path)

    def _adding(
        self, method: str, path: str, description: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            described = {"tags": self._tags, **description} if description else {}
            self.routes.append(ApiRoute(self._prefix + path, endpoint, method, described))
            return endpoint

        return add


AllowedMethods = Callable[[str], bytes | None]
"""The methods that any origin may use on a path, as in `Allow`; None for no method."""


class HeadAndOptions:
    """Answers OPTIONS on free paths, and HEAD wherever GET is allowed."""

    def __init__(self, app: ASGIApp, allowed: AllowedMethods) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS, turn HEAD into GET without its body, and pass on the rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and (allow := self._allowed(scope["path"])):
            await _send(send, 204, preflight_fields(allow, _PREFLIGHT_NAMES), b"")
        elif scope["method"] == "HEAD" and self._allowed(scope["path"]) == ALLOW:
            scope = {**scope, "method": "GET", "is_head": True}
            await self._app(scope, receive, without_body(send))
        else:
            await self._app(scope, receive, send)


def without_body(send: Send) -> Send:
    """Send the same response without its body, as HEAD requires."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return forward


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def preflight_fields(allow: bytes, names: bytes) -> Headers:
    """The headers of a preflight response: any origin may use these methods and fields."""
    return [
        *CORS,
        (b"allow", allow),
        (b"access-control-allow-methods", allow),
        (b"access-control-allow-headers", names),
        (b"access-control-max-age", b"86400"),
    ]


def is_cross_site(headers: Headers, base_url: str) -> bool:
    """Whether a page of another origin sent a request to the service at `base_url`.

    Browsers set `Sec-Fetch-Site` and `Origin`, and pages can't change them. A request without
    either comes from a program. `Sec-Fetch-Site` decides if it is there: `Origin` is `null` for
    some requests of our own pages. Browsers leave `Sec-Fetch-Site` out over plain HTTP.
    """
    fields = {name: value for name, value in headers if name in _ORIGIN_FIELDS}
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is not None or origin is None:
        return site not in {None, b"same-origin", b"none"}
    own, host = urlsplit(base_url), fields.get(b"host", b"")
    if origin == f"{own.scheme}://{own.netloc}".encode():
        return False
    # Another name of this machine, such as localhost, is fine; our name with another scheme is not.
    return host == own.netloc.encode() or origin.partition(b"://")[2] != host


def clamped_integer(values: Sequence[str], *, default: int, lowest: int, highest: int) -> int:
    """An integer given once, clamped to the range; anything else gives the default."""
    integer = _INTEGER.fullmatch(values[0]) if len(values) == 1 else None
    if integer is None:
        return default
    sign, digits = integer.groups()
    if sign == "-":
        return lowest
    # Compare lengths first: converting thousands of digits is slow.
    is_beyond = len(digits) > len(str(highest))
    return highest if is_beyond else min(max(int(digits), lowest), highest)


@asynccontextmanager
async def watch_disconnect(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Yield a function that tells whether the client has disconnected.

    Servers report a disconnect only to a pending `receive`. Polling it once without waiting, as a
    framework's `is_disconnected` does, returns the request itself and misses what follows.
    """
    listening = asyncio.ensure_future(next_disconnect(receive))

    def is_disconnected() -> bool:
        if not listening.done():
            return False
        # If `receive` itself failed, the connection is gone.
        return listening.cancelled() or listening.exception() is not None or listening.result()

    try:
        yield is_disconnected
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def next_disconnect(receive: Receive) -> bool:
    """Read the request to its end, wait for the next message, and tell if it is a disconnect."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            message = await receive()
            break
    return bool(message["type"] == "http.disconnect")

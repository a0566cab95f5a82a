"""How free reads speak HTTP: HEAD, OPTIONS, conditional requests and errors, in one place."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

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


async def send_document(
    document: Document, scope: Scope, send: Send, now: int, extra: Headers | None = None
) -> None:
    """Send a document in answer to a GET or HEAD, or 304 to who has it already.

    `extra` fields are about this caller, so no shared cache may keep an answer that has them.
    """
    document = document.suited(scope["headers"])
    begin = document.begin(now)
    if extra:
        begin = {**begin, "headers": [*map(_for_one, begin["headers"]), *extra]}
    for name, value in scope["headers"]:
        if name == b"if-none-match" and document.matches(value):
            fields = [field for field in begin["headers"] if field[0] not in _BODY_FIELDS]
            await _send(send, 304, fields, b"")
            return
    await send(begin)
    await send_body(document.end if scope["method"] == "GET" else NO_BODY, send)


def _for_one(field: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    name, value = field
    return (name, value.replace(b"public", b"private")) if name == b"cache-control" else field


async def send_body(message: Message, send: Send) -> None:
    """Send a body message, a long one in slices.

    Each `send` waits while the client reads nothing, so such a client holds a slice or two in
    memory and not the whole body.
    """
    body = message.get("body", b"")
    last = max(len(body) - 1, 0) // SLICE_BYTES
    if last == 0:
        await send(message)
        return
    for number in range(last + 1):
        part = body[number * SLICE_BYTES : (number + 1) * SLICE_BYTES]
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
    """An error: exactly one member, never kept by a cache, for any origin only on free paths."""
    response = Response(ErrorBody(error=message).encode(), status)
    length = (b"content-length", str(len(response.body)).encode())
    response.raw_headers = [(b"content-type", JSON), length, NO_STORE, NOSNIFF, *headers]
    response.raw_headers += CORS if is_free else []
    return response


def private_response(status: int, body: bytes, *headers: tuple[bytes, bytes]) -> Response:
    """An answer of an entitled or paid endpoint: for this caller alone, never kept or shared."""
    response = Response(body, status)
    length = (b"content-length", str(len(body)).encode())
    response.raw_headers = [(b"content-type", JSON), length, PRIVATE, *headers]
    return response


async def read_body(request: Request, longest: int) -> bytes:
    """Read a request's body, as far as it may go.

    Raises:
        BodyTooLong: it is longer than that.
        InvalidRequest: it ended half way.
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
    """A route's answer: a document, sent the way the front door sends it."""

    def __init__(self, document: Document, now: int, extra: Headers | None = None) -> None:
        super().__init__()
        self._document = document
        self._now = now
        self._extra = extra

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send_document(self._document, scope, send, self._now, self._extra)


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
        # Starlette would add HEAD to GET; `FreeReads` answers HEAD, and only on free paths.
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

    def _adding(
        self, method: str, path: str, description: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            described = {"tags": self._tags, **description} if description else {}
            self.routes.append(ApiRoute(self._prefix + path, endpoint, method, described))
            return endpoint

        return add


AllowedMethods = Callable[[str], bytes | None]
"""What may be done from any origin with a path, as `Allow` says it; None: nothing."""


class FreeReads:
    """Lets the routes of free paths answer OPTIONS, and those with GET answer HEAD too."""

    def __init__(self, app: ASGIApp, allowed: AllowedMethods) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS, turn HEAD into a GET without its body, pass on the rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and (allow := self._allowed(scope["path"])):
            await _send(send, 204, preflight_fields(allow, _ASKED_WITH), b"")
        elif scope["method"] == "HEAD" and self._allowed(scope["path"]) == ALLOW:
            await self._app({**scope, "method": "GET"}, receive, bodiless(send))
        else:
            await self._app(scope, receive, send)


def bodiless(send: Send) -> Send:
    """Send the same without the body, as HEAD is answered."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return forward


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


_BODY_FIELDS = (b"content-type", b"content-length", b"content-encoding")


_ASKED_WITH = b"X-API-Key, If-None-Match, Content-Type"


def preflight_fields(allow: bytes, names: bytes) -> Headers:
    """Answer a preflight: any origin may use these methods and request fields."""
    return [
        *CORS,
        (b"allow", allow),
        (b"access-control-allow-methods", allow),
        (b"access-control-allow-headers", names),
        (b"access-control-max-age", b"86400"),
    ]

"""How free reads speak HTTP: HEAD, OPTIONS, conditional requests and errors, in one place."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response

from barograph.kit.documents import CORS, JSON, NO_STORE, Document, Headers, Message
from barograph.kit.wire import ErrorBody

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

ALLOW = b"GET, HEAD, OPTIONS"
READS = frozenset({"GET", "HEAD"})
NO_BODY: Message = {"type": "http.response.body", "body": b"", "more_body": False}


async def send_document(document: Document, scope: Scope, send: Send, now: int) -> None:
    """Send a document in answer to a GET or HEAD, or 304 to who has it already."""
    begin = document.begin(now)
    for name, value in scope["headers"]:
        if name == b"if-none-match" and document.matches(value):
            fields = [field for field in begin["headers"] if field[0] not in _BODY_FIELDS]
            await _send(send, 304, fields, b"")
            return
    await send(begin)
    await send(document.end if scope["method"] == "GET" else NO_BODY)


def error_response(
    status: int, message: str, *headers: tuple[bytes, bytes], is_free: bool = True
) -> Response:
    """An error: exactly one member, never kept by a cache, for any origin only on free paths."""
    response = Response(ErrorBody(error=message).encode(), status)
    length = (b"content-length", str(len(response.body)).encode())
    response.raw_headers = [(b"content-type", JSON), length, NO_STORE, *headers]
    response.raw_headers += CORS if is_free else []
    return response


class DocumentResponse(Response):
    """A route's answer: a document, sent the way the front door sends it."""

    def __init__(self, document: Document, now: int) -> None:
        super().__init__()
        self._document = document
        self._now = now

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send_document(self._document, scope, send, self._now)


class FreeReads:
    """Lets the GET routes of free paths answer HEAD and OPTIONS too."""

    def __init__(self, app: ASGIApp, is_free: Callable[[str], bool]) -> None:
        self._app = app
        self._is_free = is_free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS, turn HEAD into a GET without its body, pass on the rest."""
        if scope["type"] == "http" and scope["path"].endswith("\n"):
            # The router's patterns end in `$`, which lets a newline at the end pass.
            await error_response(404, "not found", is_free=False)(scope, receive, send)
        elif scope["type"] != "http" or not self._is_free(scope["path"]):
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await _send(send, 204, _PREFLIGHT, b"")
        elif scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _bodiless(send))
        else:
            await self._app(scope, receive, send)


def _bodiless(send: Send) -> Send:
    async def forward(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return forward


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


_BODY_FIELDS = (b"content-type", b"content-length")
_PREFLIGHT: Headers = [
    *CORS,
    (b"allow", ALLOW),
    (b"access-control-allow-methods", ALLOW),
    (b"access-control-allow-headers", b"X-API-Key, If-None-Match, Content-Type"),
    (b"access-control-max-age", b"86400"),
]

"""`/api/mcp`.

Requests that break HTTP rules or are no JSON-RPC message are rejected here, before the SDK is even
loaded. The SDK answers the rest.
"""

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from starlette.responses import Response
from starlette.routing import Route

from barograph.discovery.mcp_description import MCP_PATH
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.documents import CORS, JSON, NO_STORE, Headers, Message
from barograph.kit.http import (
    ApiRouter,
    ASGIApp,
    Receive,
    Scope,
    Send,
    error_response,
    preflight_fields,
    without_body,
)
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.limits.rate_limits import MCP_POSTS, RateLimiter, TooManyRequests
from barograph.mcp import messages
from barograph.mcp.calls import ToolCalls
from barograph.mcp.messages import (
    REVISION_FIELD,
    HeaderValues,
    InvalidMessage,
    check_revision,
    read_message,
)

if TYPE_CHECKING:
    from barograph.mcp.server import Transport

log = logging.getLogger(__name__)

MCP_PATHS = (MCP_PATH, f"{MCP_PATH}/")
_ALLOW = b"POST, OPTIONS"
_FIELDS = b"Content-Type, X-API-Key, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"


class McpEndpoint:
    """The ASGI application of `/api/mcp`."""

    def __init__(
        self, base_url: str, limiter: RateLimiter, clock: Clock, load: Callable[[], "Transport"]
    ) -> None:
        """`load` imports the SDK; it is slow, so it runs in a thread on the first request."""
        self._host = messages.PublicHost(base_url)
        self._limiter = limiter
        self._clock = clock
        self._load = load
        self._transport: Transport | None = None
        self._loading: SingleFlight[str, Transport] = SingleFlight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        values = messages.header_values(scope)
        found = await self._check_head(scope, values) or _check_body(await _read(receive), values)
        if isinstance(found, Response):
            await found(scope, receive, without_body(send) if scope["method"] == "HEAD" else send)
            return
        await self._pass_on(messages.with_plain_media_types(scope, values), found, receive, send)

    async def close(self) -> None:
        """Close the SDK's server."""
        if self._transport is not None:
            await self._transport.close()

    async def _check_head(self, scope: Scope, values: HeaderValues) -> Response | None:
        """The response to a request whose body need not be read."""
        if scope["method"] not in {"POST", "OPTIONS"}:
            return error_response(405, "method not allowed", (b"allow", _ALLOW))
        if not self._host.matches(values[b"host"]):
            return error_response(421, "the Host header must name the service's public address")
        if scope["method"] == "OPTIONS":
            return _bare(204, preflight_fields(_ALLOW, _FIELDS))
        try:
            await self._limiter.count(MCP_POSTS, self._limiter.caller(scope))
        except TooManyRequests as error:
            return error_response(error.status, error.message, *error.fields(self._clock()))
        return _check_media_types(values)

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the SDK answer a request whose body was read."""
        sender = _UncachedSender(send)
        try:
            transport = self._transport or await self._loading.do("", self._loaded)
            await transport(scope, _replayed(body, receive), sender)
        except Exception:
            if sender.is_started:
                raise
            # Before routing, no handler would turn it into the documented body.
            log.exception("unexpected failure")
            await error_response(500, "internal error")(scope, receive, send)

    async def _loaded(self) -> "Transport":
        self._transport = await asyncio.to_thread(self._load)
        return self._transport


class _UncachedSender:
    """Sends a response with `no-store` and CORS fields, and knows whether it has started."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_started = True
            message = {**message, "headers": [*message["headers"], NO_STORE, *CORS]}
        await self._send(message)


def mcp_endpoint(
    calls: ToolCalls, limiter: RateLimiter, base_url: str, clock: Clock
) -> McpEndpoint:
    """The endpoint for these tool calls."""

    def load() -> "Transport":
        server = import_module("barograph.mcp.server")
        return cast("Transport", server.Transport(calls, base_url, MAX_BODY_BYTES))

    return McpEndpoint(base_url, limiter, clock, load)


def mcp_before_routing(app: ASGIApp, endpoint: McpEndpoint) -> ASGIApp:
    """Answer `/api/mcp` before routing, which would make it 50 % slower."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_mcp = scope["type"] == "http" and scope["path"] in MCP_PATHS
        await (endpoint if is_mcp else app)(scope, receive, send)

    return answer


def mcp_routes(endpoint: McpEndpoint) -> ApiRouter:
    """The routes of `/api/mcp`, with and without a trailing slash."""
    router = ApiRouter()
    for path in MCP_PATHS:
        router.routes.append(Route(path, endpoint, include_in_schema=False))
    return router


def _check_media_types(values: HeaderValues) -> Response | None:
    if not messages.is_json(values[b"content-type"]):
        return error_response(415, "the Content-Type must be application/json")
    if not messages.accepts_json(values[b"accept"]):
        return error_response(406, "the Accept header must allow application/json")
    return None


async def _read(receive: Receive) -> bytes | None:
    """Read the body of a request; None if the client disconnects first.

    Raises:
        BodyTimeout: it did not arrive in time.
        BodyTooLong: it is too long.
    """
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)
    return None


def _check_body(body: bytes | None, values: HeaderValues) -> Response | bytes:
    """The body of a request, or the response to anything else."""
    if body is None:
        return error_response(400, "the body ended early")
    try:
        message, body = read_message(body)
        check_revision(message, values[REVISION_FIELD])
    except InvalidMessage as error:
        return _uncached(400, error.response)
    # Notifications need no action: they could only concern other requests, and there is no session.
    return body if message.is_request else _uncached(202)


def _uncached(status: int, body: bytes = b"") -> Response:
    content_type = [(b"content-type", JSON)] if body else []
    length = (b"content-length", str(len(body)).encode())
    return _bare(status, [*content_type, length, NO_STORE, *CORS], body)


def _bare(status: int, fields: Headers, body: bytes = b"") -> Response:
    response = Response(body, status)
    response.raw_headers = fields
    return response


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was already read, then whatever follows."""
    read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return read.pop() if read else await receive()

    return replay

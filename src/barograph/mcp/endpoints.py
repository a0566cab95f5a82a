"""`/api/mcp`, and the documents by which it is found.

What has nothing to do with the protocol is refused here, before the SDK is even loaded; the SDK
answers the rest in the protocol's own words.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Route

from barograph.discovery import files as paths
from barograph.discovery.mcp_description import CARD_TYPE, CATALOG_TYPE
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.documents import CORS, JSON, NO_STORE, Document, Headers, Message
from barograph.kit.http import (
    ASGIApp,
    DocumentResponse,
    Receive,
    Scope,
    Send,
    error_response,
    preflight_fields,
    without_body,
)
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.limits.callers import Gate
from barograph.limits.rate_limits import MCP_POSTS, TooManyRequests
from barograph.mcp import card
from barograph.mcp.calls import ToolCalls
from barograph.mcp.messages import FIELD as REVISION
from barograph.mcp.messages import Names, Refused, check_revision, read_message

if TYPE_CHECKING:
    from barograph.mcp.server import Transport

log = logging.getLogger(__name__)

Fields = Mapping[bytes, Sequence[bytes]]

PUBLIC_PATHS = frozenset(
    {paths.CARD_PATH, paths.REGISTRY_PATH, paths.CATALOG_PATH, paths.FORMER_CARD_PATH}
)
"""What anyone from any origin may read."""

MCP_PATHS = (paths.MCP_PATH, f"{paths.MCP_PATH}/")
_ALLOW = b"POST, OPTIONS"
_ASKED_WITH = b"Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"
_LOOKED_AT = (b"host", b"content-type", b"accept", REVISION)
_KEEP = b"public, max-age=3600"
_READABLE = (JSON, b"application/*", b"*/*")
"""The media ranges that JSON is in, the narrowest first."""

_MEDIA_FIELDS = frozenset({b"content-type", b"accept"})


class McpDoor:
    """Lets requests of the protocol in: an ASGI application."""

    def __init__(
        self, base_url: str, gate: Gate, clock: Clock, load: Callable[[], "Transport"]
    ) -> None:
        """Know the service by its base address; `load` gets what answers, and may take long."""
        self._names = Names(base_url)
        self._gate = gate
        self._clock = clock
        self._load = load
        self._transport: Transport | None = None
        self._loading: SingleFlight[str, Transport] = SingleFlight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        fields = _fields(scope)
        refused = await self._refused(scope, fields)
        found = refused or _looked_at(await _read(receive), fields[REVISION])
        if isinstance(found, Response):
            await found(scope, receive, without_body(send) if scope["method"] == "HEAD" else send)
            return
        reply = _Reply(send)
        try:
            transport = self._transport or await self._loading.do("", self._loaded)
            await transport(_spelled_plainly(scope, fields), _replayed(found, receive), reply)
        except Exception:
            if reply.is_begun:
                raise
            # In front of routing nobody else would turn it into the documented body.
            log.exception("unexpected failure")
            await error_response(500, "internal error")(scope, receive, send)

    async def close(self) -> None:
        """End what was loaded."""
        if self._transport is not None:
            await self._transport.close()

    async def _refused(self, scope: Scope, fields: Fields) -> Response | None:
        """The answer to what is no request of the protocol, seen by its head alone."""
        if scope["method"] not in {"POST", "OPTIONS"}:
            return error_response(405, "method not allowed", (b"allow", _ALLOW))
        hosts = fields[b"host"]
        if len(hosts) != 1 or not self._names.is_host(hosts[0]):
            return error_response(421, "the Host header must name the service's public address")
        if scope["method"] == "OPTIONS":
            return _bare(204, preflight_fields(_ALLOW, _ASKED_WITH))
        try:
            await self._gate.charge(MCP_POSTS, self._gate.caller(scope))
        except TooManyRequests as error:
            return error_response(error.status, error.message, *error.fields(self._clock()))
        return _refused_by_head(fields)

    async def _loaded(self) -> "Transport":
        """Load in a thread of its own: nobody else waits for it."""
        self._transport = await asyncio.to_thread(self._load)
        return self._transport


class _Reply:
    """Sends an answer for nobody to keep, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_begun = True
            message = {**message, "headers": [*message["headers"], NO_STORE, *CORS]}
        await self._send(message)


def open_door(calls: ToolCalls, gate: Gate, base_url: str, clock: Clock) -> McpDoor:
    """The door to these calls; the SDK is imported when the first of them comes."""

    def load() -> "Transport":
        server = import_module("barograph.mcp.server")
        return cast("Transport", server.Transport(calls, base_url, MAX_BODY_BYTES))

    return McpDoor(base_url, gate, clock, load)


def mcp_door(app: ASGIApp, door: McpDoor) -> ASGIApp:
    """Answer the protocol before routing, which costs half as much again, and pass on the rest."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_for_door = scope["type"] == "http" and scope["path"] in MCP_PATHS
        await (door if is_for_door else app)(scope, receive, send)

    return answer


def mcp_routes(door: McpDoor, base_url: str, clock: Clock) -> APIRouter:
    """The routes of the door and of the documents by which it is found."""
    router = APIRouter(include_in_schema=False)
    for path in MCP_PATHS:
        router.routes.append(Route(path, door, include_in_schema=False))
    documents = _documents(base_url)

    @router.get(paths.CARD_PATH)
    @router.get(paths.FORMER_CARD_PATH)
    @router.get(paths.REGISTRY_PATH)
    @router.get(paths.CATALOG_PATH)
    async def read(request: Request) -> DocumentResponse:
        return DocumentResponse(documents[request.scope["path"]], clock())

    return router


def _documents(base_url: str) -> dict[str, Document]:
    server = _document(card.card(base_url), CARD_TYPE)
    return {
        paths.CARD_PATH: server,
        paths.FORMER_CARD_PATH: server,
        paths.REGISTRY_PATH: _document(card.registry_entry(base_url), JSON.decode()),
        paths.CATALOG_PATH: _document(card.catalog(base_url), CATALOG_TYPE),
    }


def _document(body: bytes, content_type: str) -> Document:
    return Document(body, content_type=content_type.encode(), cache_control=_KEEP)


def _fields(scope: Scope) -> Fields:
    """Every value of each field that is looked at."""
    found: dict[bytes, list[bytes]] = {name: [] for name in _LOOKED_AT}
    for name, value in scope["headers"]:
        if name in found:
            found[name].append(value)
    return found


def _refused_by_head(fields: Fields) -> Response | None:
    """The answer to a POST whose body isn't worth reading."""
    if _media_types(tuple(fields[b"content-type"])) != (JSON,):
        return error_response(415, "the Content-Type must be application/json")
    if fields[b"accept"] and not _takes_json(tuple(fields[b"accept"])):
        return error_response(406, "the Accept header must allow application/json")
    return None


@lru_cache(maxsize=32)
def _media_types(lines: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The media types that the lines of a field list, without their parameters."""
    listed = b",".join(lines).lower().split(b",")
    return tuple(each.partition(b";")[0].strip() for each in listed)


@lru_cache(maxsize=32)
def _takes_json(lines: tuple[bytes, ...]) -> bool:
    """Whether the lines of `Accept` take JSON; of the ranges that do, the narrowest counts."""
    weights: dict[bytes, float] = {}
    for each in b",".join(lines).lower().split(b","):
        media_type, _, parameters = each.partition(b";")
        weights[media_type.strip()] = _weight(parameters)
    return next((weights[each] > 0 for each in _READABLE if each in weights), False)


def _weight(parameters: bytes) -> float:
    """The `q` of a media range; one that is no number counts as none."""
    for each in parameters.split(b";"):
        name, _, value = each.partition(b"=")
        if name.strip() == b"q":
            with suppress(ValueError):
                return float(value)
    return 1.0


def _spelled_plainly(scope: Scope, fields: Fields) -> Scope:
    """A request whose media types have the one spelling that the SDK knows, in one line each."""
    others = [field for field in scope["headers"] if field[0] not in _MEDIA_FIELDS]
    accept = b", ".join([JSON, *fields[b"accept"]])
    return {**scope, "headers": [(b"content-type", JSON), (b"accept", accept), *others]}


async def _read(receive: Receive) -> bytes | None:
    """Read the body of a request; None when the client left before its end.

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


def _looked_at(body: bytes | None, revisions: Sequence[bytes]) -> Response | bytes:
    """The answer to a body that needs no server, or the body of a request."""
    if body is None:
        return error_response(400, "the body ended half way")
    try:
        message, body = read_message(body)
        check_revision(message, revisions)
    except Refused as error:
        return _unstorable(400, error.answer)
    # A notification is only noted: no request knows of another that it could be about.
    return body if message.is_request else _unstorable(202)


def _unstorable(status: int, body: bytes = b"") -> Response:
    kind = [(b"content-type", JSON)] if body else []
    length = (b"content-length", str(len(body)).encode())
    return _bare(status, [*kind, length, NO_STORE, *CORS], body)


def _bare(status: int, headers: Headers, body: bytes = b"") -> Response:
    response = Response(body, status)
    response.raw_headers = headers
    return response


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and then what else there is to receive."""
    read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return read.pop() if read else await receive()

    return replay

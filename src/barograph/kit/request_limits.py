"""Limits on the path, query and body of a request, checked before anything parses them."""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from starlette.responses import Response

from barograph.errors import BodyTimeout, BodyTooLong
from barograph.kit.documents import Message
from barograph.kit.http import PERCENT, READS, ASGIApp, Receive, Scope, Send, hardened, without_body

MAX_QUERY_BYTES = 8 * 1024
MAX_PARAMETERS = 32
MAX_BODY_BYTES = 16 * 1024

QUERY_TOO_LONG = (
    f"the query may have at most {MAX_QUERY_BYTES:,} bytes and {MAX_PARAMETERS} parameters"
)

_NEVER_SERVED = re.compile(rb"%2f|%5c|%0a$", re.IGNORECASE)


class RequestLimits(NamedTuple):
    """The limits, and how a refusal is rendered."""

    body_seconds: float
    """How long a body may take to arrive, from the start of its request."""

    any_query: Collection[str]
    """Paths that check their own queries, after they have identified the caller."""

    refusal: Callable[[Scope, int, str], Response]
    """Renders an error in the format of the request's path."""


def limited(app: ASGIApp, limits: RequestLimits) -> ASGIApp:
    """Refuse requests that no route should see, and limit the bodies of the rest.

    The limits on a body apply only when a route reads it, so a wrong method or header is refused at
    once, whatever the announced length.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif refused := _refused(scope, limits.any_query):
            await refuse(scope, receive, send, *refused)
        elif scope["method"] in READS:  # they read no body
            await app(scope, receive, send)
        else:
            try:
                await app(scope, _LimitedBody(scope, receive, limits.body_seconds), send)
            except (BodyTimeout, BodyTooLong) as error:  # raised in front of the routes
                await refuse(scope, receive, send, error.status, error.message)

    async def refuse(scope: Scope, receive: Receive, send: Send, status: int, message: str) -> None:
        send = without_body(send) if scope["method"] == "HEAD" else send
        await hardened(limits.refusal(scope, status, message))(scope, receive, send)

    return answer


def _refused(scope: Scope, any_query: Collection[str]) -> tuple[int, str] | None:
    path: str = scope["path"]
    # Proxies disagree on whether an encoded slash separates, so no path may have one. A newline at
    # the end would pass the router's patterns, which end in `$`.
    if PERCENT in scope["raw_path"] and _NEVER_SERVED.search(scope["raw_path"]):
        return 404, "not found"
    query: bytes = scope["query_string"]
    is_long = len(query) > MAX_QUERY_BYTES or _has_too_many(query)
    return (414, QUERY_TOO_LONG) if is_long and path not in any_query else None


def _has_too_many(query: bytes) -> bool:
    # Count separators first, which is fast; two in a row have no parameter between them.
    if query.count(b"&") < MAX_PARAMETERS:
        return False
    return sum(1 for pair in query.split(b"&") if pair) > MAX_PARAMETERS


class _LimitedBody:
    """Receives a request body within its limits, and then any other message.

    Raises:
        BodyTimeout: it did not arrive in time.
        BodyTooLong: it is too long, or its Content-Length says so.
    """

    def __init__(self, scope: Scope, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._left = MAX_BODY_BYTES
        self._is_whole = False
        self._announces_too_much = any(
            _is_too_long(value) for name, value in scope["headers"] if name == b"content-length"
        )

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        if self._announces_too_much:
            raise BodyTooLong(MAX_BODY_BYTES)
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            raise BodyTimeout from error
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BodyTooLong(MAX_BODY_BYTES)
        self._is_whole = not message.get("more_body", False)
        return message


def _is_too_long(length: bytes) -> bool:
    # The number of digits first: converting thousands of them is slow.
    digits = length.lstrip(b"0")
    return len(digits) > len(str(MAX_BODY_BYTES)) or int(digits or b"0") > MAX_BODY_BYTES

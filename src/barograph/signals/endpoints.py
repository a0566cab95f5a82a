"""`/api/v1/signals`: count the request against the caller's rate limit, answer from memory.

The answer is one ASGI application. It runs in front of routing, where it costs least, and behind
the documented route, so that both give the same response.
"""

import logging
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from barograph.board.board import Board
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import (
    READS,
    ASGIApp,
    Receive,
    Scope,
    Send,
    error_response,
    send_document,
    without_body,
)
from barograph.kit.wire import refusal
from barograph.limits.callers import Gate
from barograph.limits.rate_limits import PERSONAL, Refusal, policy_field, rate_limit_fields
from barograph.signals.documents import SIGNALS_PATH, PublicSignals
from barograph.signals.reader import SignalsReader

log = logging.getLogger(__name__)

RETRY_AFTER = (b"retry-after", b"5")


def signals_answer(board: Board, reader: SignalsReader, gate: Gate) -> ASGIApp:
    """Answer GET and HEAD of signals."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            send = without_body(send)
        now = board.clock()
        try:
            fields = rate_limit_fields(await gate.admit(scope), now)
            document = reader.document(board, now)
        except Refusal as refusal:
            response = error_response(refusal.status, refusal.message, *refusal.fields(now))
            await response(scope, receive, send)
        except DatabaseUnavailable:
            # A key was sent: its limit is known, but not what remains of it.
            fields = [policy_field(PERSONAL), RETRY_AFTER]
            response = error_response(503, "keys cannot be checked at the moment", *fields)
            await response(scope, receive, send)
        except Exception:
            # In front of routing no error handler would produce the documented body.
            log.exception("unexpected failure")
            await error_response(500, "internal error")(scope, receive, send)
        else:
            await send_document(document, scope, send, now, fields)

    return answer


def signals_door(app: ASGIApp, answer: ASGIApp) -> ASGIApp:
    """Answer signals before routing, and pass on the rest."""

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == SIGNALS_PATH and scope["method"] in READS:
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    return door


def signals_routes(answer: ASGIApp) -> APIRouter:
    """The documented route."""
    router = APIRouter(tags=["signals"])

    @router.get(
        SIGNALS_PATH,
        response_model=PublicSignals,
        summary="Regime signals; 120 requests an hour, 1,000 with a personal key",
        operation_id="getSignals",
        responses={200: _FIELDS, 401: _INVALID_KEY, 429: _SPENT, 503: _NOT_CHECKED},
        openapi_extra={"parameters": [_KEY_PARAMETER]},
    )
    async def signals() -> Response:
        return _Passed(answer)

    return router


class _Passed(Response):
    """A response that another application gives."""

    def __init__(self, answer: ASGIApp) -> None:
        super().__init__()
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


def _field(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


_RATE_LIMIT = {
    "RateLimit-Policy": _field(
        "The allowance: requests in so many seconds.", '"anon";q=120;w=3600'
    ),
    "RateLimit": _field(
        "What is left, and the seconds until a request comes back.", '"anon";r=119;t=3600'
    ),
    "X-RateLimit-Limit": _field("The allowance.", "120"),
    "X-RateLimit-Remaining": _field("What is left of it.", "119"),
    "X-RateLimit-Reset": _field("When a request comes back, in Unix seconds.", "1794725183"),
}
_RETRY = {"Retry-After": _field("Seconds to wait.", "17")}
_FIELDS: dict[str, Any] = {"headers": _RATE_LIMIT}
_INVALID_KEY = refusal(
    "The key is unknown or revoked.",
    _RATE_LIMIT
    | {
        "WWW-Authenticate": _field("How to present a key.", 'ApiKey header="X-API-Key"'),
        "RateLimit-Policy": _field("How often a key may be wrong.", '"bad-key";q=60;w=3600'),
        "RateLimit": _field("How often it still may.", '"bad-key";r=59;t=3600'),
    },
)
_SPENT = refusal("The allowance is spent; nothing was charged.", _RATE_LIMIT | _RETRY)
_NOT_CHECKED = refusal("The key cannot be checked at the moment.", _RETRY)
_KEY_PARAMETER = {
    "name": "X-API-Key",
    "in": "header",
    "required": False,
    "description": "A personal key; without one the anonymous allowance counts.",
    "schema": {"type": "string"},
}

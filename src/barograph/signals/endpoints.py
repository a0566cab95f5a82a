"""`/api/v1/signals`: count the request against the caller's rate limit, answer from memory.

The answer is one ASGI application. It runs in front of routing, where it costs least, and behind
the documented route, so that both give the same response.
"""

import logging

from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import (
    READS,
    ApiRouter,
    ASGIApp,
    DelegatedResponse,
    Receive,
    Scope,
    Send,
    error_response,
    send_document,
    without_body,
)
from barograph.kit.wire import Schema, operation, parameter, refusal
from barograph.limits.rate_limits import (
    PERSONAL,
    CallerRefused,
    RateLimiter,
    policy_field,
    rate_limit_fields,
)
from barograph.signals.documents import SIGNALS_PATH, PublicSignals
from barograph.signals.reader import SignalsReader

log = logging.getLogger(__name__)

RETRY_AFTER = (b"retry-after", b"5")
KEY_NOT_CHECKED = (
    "the key cannot be checked right now; try again in a few seconds, or leave X-API-Key out"
)


def signals_answer(board: Board, reader: SignalsReader, limiter: RateLimiter) -> ASGIApp:
    """Answer GET and HEAD of signals."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            send = without_body(send)
        now = board.clock()
        try:
            fields = rate_limit_fields(await limiter.admit(scope), now)
            document = reader.document(board, now)
        except CallerRefused as error:
            response = error_response(error.status, error.message, *error.fields(now))
            await response(scope, receive, send)
        except DatabaseUnavailable:
            # A key was sent: its limit is known, but not what remains of it.
            fields = [policy_field(PERSONAL), RETRY_AFTER]
            response = error_response(503, KEY_NOT_CHECKED, *fields)
            await response(scope, receive, send)
        except Exception:
            # In front of routing no error handler would produce the documented body.
            log.exception("unexpected failure")
            await error_response(500, "internal error")(scope, receive, send)
        else:
            await send_document(document, scope, send, now, fields)

    return answer


def signals_before_routing(app: ASGIApp, answer: ASGIApp) -> ASGIApp:
    """Answer signals before routing, and pass on the rest."""

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == SIGNALS_PATH and scope["method"] in READS:
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    return dispatch


def signals_routes(answer: ASGIApp) -> ApiRouter:
    """The documented route."""
    router = ApiRouter(tags=["signals"])

    @router.get(SIGNALS_PATH, **operation("getSignals", PublicSignals, _KEY, responses=_ANSWERS))
    async def signals(_: Request) -> Response:
        return DelegatedResponse(answer)

    return router


def _field(description: str, example: str) -> Schema:
    return {"description": description, "schema": {"type": "string"}, "example": example}


_KEY = parameter("header", "X-API-Key", "A personal key. Without one the anonymous limit applies.")
_RATE_LIMIT = {
    "RateLimit-Policy": _field(
        "The limit: `q` requests in any `w` seconds.", '"anon";q=120;w=3600'
    ),
    "RateLimit": _field(
        "`r` requests are left; one more is available in `t` seconds.", '"anon";r=119;t=3600'
    ),
    "X-RateLimit-Limit": _field("The limit.", "120"),
    "X-RateLimit-Remaining": _field("How many requests are left.", "119"),
    "X-RateLimit-Reset": _field(
        "When one more request is available, in Unix seconds.", "1794725183"
    ),
}
_RETRY = {"Retry-After": _field("Seconds to wait.", "17")}
_BAD_KEY = {
    "WWW-Authenticate": _field("How to send a key.", 'ApiKey header="X-API-Key"'),
    "RateLimit-Policy": _field("The limit for invalid keys.", '"bad-key";q=60;w=3600'),
    "RateLimit": _field("How many invalid keys are left.", '"bad-key";r=59;t=3600'),
}
_ANSWERS: dict[int, str | Schema] = {
    200: {"headers": _RATE_LIMIT},
    401: refusal("The key is unknown or revoked.", _RATE_LIMIT | _BAD_KEY),
    429: refusal("The limit is reached; this request was not counted.", _RATE_LIMIT | _RETRY),
    503: refusal("The key cannot be checked right now.", _RETRY),
}

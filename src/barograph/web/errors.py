"""How errors become answers: a badge, a page or JSON, as the path promises."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.badges.endpoints import refused_badge
from barograph.discovery.files import DISCOVERY_PATHS, INDEX_PATH, OPENAPI_PATH
from barograph.entitlements.refusals import FEED_PATH
from barograph.errors import PrivateError, RequestError, TemporarilyUnavailable
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.history.documents import HISTORY_FOLDER
from barograph.keys.endpoints import KEYS_ALLOW
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Headers
from barograph.kit.http import ALLOW, Scope, error_response, private_response
from barograph.kit.wire import CodedErrorBody
from barograph.limits.rate_limits import KEYS_PATH, CallerRefused
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.mcp.endpoints import MCP_PATHS
from barograph.payments.offers import PaymentRequired, payment_required_field
from barograph.signals.documents import SIGNALS_PATH
from barograph.site.chart_images import refused_image
from barograph.site.paths import CHART_FOLDER
from barograph.site.routes import PAGE_FOLDERS, PAGE_PATHS
from barograph.site.site import RETRY, error_page
from barograph.site.templating import Templates
from barograph.stances.documents import STANCE_PATHS
from barograph.status.endpoints import STATUS_PATH
from barograph.web.monitoring import HEALTH_PATHS
from barograph.webhooks.endpoints import WEBHOOK_KEY_PATH

log = logging.getLogger(__name__)

Handler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]

VERSION_1 = tuple(
    f"/api/v1/{name}"
    for name in (
        *("perpetuals", "cross", "venues", "series/", "liquidations", "events", "incidents"),
        *("stances/", "briefs/", "accuracy", "carry", "listings"),
    )
)
FREE_PATHS = frozenset(
    {*PAGE_PATHS, *DISCOVERY_PATHS, *HEALTH_PATHS, SIGNALS_PATH, STATUS_PATH, WEBHOOK_KEY_PATH}
)
LOG_FOLDERS = ("/history/", "/history-")
FREE_FOLDERS = (
    *(f"{INDEX_PATH}/", BADGE_FOLDER, HISTORY_FOLDER),
    *(*LOG_FOLDERS, *PAGE_FOLDERS, *VERSION_1),
)
PRIVATE_PATHS = frozenset({MATERIAL_CHANGE_PATH, FEED_NOW_PATH, FEED_PATH, *STANCE_PATHS.values()})
"""Subscriber and paid endpoints: only the caller may see the answer, errors included."""


def is_free(path: str) -> bool:
    """Whether anyone from any origin may read this path; `/api/agents` is not `/api/agent`."""
    return path in FREE_PATHS or path.startswith(FREE_FOLDERS)


def allowed_methods(path: str) -> bytes | None:
    """The value of `Allow` where any origin may call; None for other paths."""
    if path == KEYS_PATH:
        return KEYS_ALLOW
    return ALLOW if is_free(path) else None


def refusal(
    pages: Templates, scope: Scope, status: int, message: str, *fields: tuple[bytes, bytes]
) -> Response:
    """An error in the form that the path promises."""
    path = scope["path"]
    if path.startswith(BADGE_FOLDER):
        return refused_badge(path, status)
    if path.startswith(CHART_FOLDER):
        return refused_image(status, message, *fields)
    page = error_page(pages, Request(scope), status, *fields)
    is_open = allowed_methods(path) is not None or path in MCP_PATHS
    return page or error_response(status, message, *fields, is_free=is_open)


def error_handlers(pages: Templates, clock: Clock) -> Mapping[Any, Handler]:
    """The handler of each kind of exception."""
    return {
        RequestError: partial(_request_error, pages, clock),
        DatabaseUnavailable: partial(_request_error, pages, clock),
        PrivateError: _private_error,
        HTTPException: partial(_http_error, pages),
        Exception: partial(_unexpected_error, pages),
    }


async def _http_error(pages: Templates, request: Request, error: Exception) -> Response:
    """The router's own errors: unknown paths and wrong methods."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return _method_not_allowed(pages, request)
    page = error_page(pages, request, error.status_code)
    free = is_free(request.scope["path"])
    is_root = request.scope["path"].rstrip("/") in {"/api", "/api/v1"}
    message = f"not found; {OPENAPI_PATH} lists every endpoint" if is_root else "not found"
    return page or error_response(error.status_code, message, is_free=free)


async def _unexpected_error(pages: Templates, request: Request, error: Exception) -> Response:
    log.error("unexpected failure", exc_info=error)
    free = is_free(request.scope["path"])
    page = error_page(pages, request, 500)
    return page or error_response(500, "internal error", is_free=free)


def _method_not_allowed(pages: Templates, request: Request) -> Response:
    path = request.scope["path"]
    if path in PRIVATE_PATHS:
        return _coded(405, "method_not_allowed", "only GET is supported", (b"allow", b"GET"))
    allow = allowed_methods(path)
    is_open = allow is not None
    if allow is None:
        # Starlette's error names the methods of the first route alone.
        matched = [route for route in request.app.routes if route.matches(request.scope)[0].value]
        matched = [route for route in matched if "{" not in route.path] or matched
        allow = ", ".join(
            sorted({method for route in matched for method in route.methods})
        ).encode()
    page = error_page(pages, request, 405, (b"allow", allow))
    return page or error_response(405, "method not allowed", (b"allow", allow), is_free=is_open)


async def _request_error(
    pages: Templates, clock: Clock, request: Request, error: Exception
) -> Response:
    if isinstance(error, DatabaseUnavailable):
        error = TemporarilyUnavailable()
    assert isinstance(error, RequestError)
    fields: Headers = []
    if isinstance(error, CallerRefused):
        fields = error.fields(clock())
    elif error.status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        fields = [RETRY]
    return refusal(pages, request.scope, error.status, error.message, *fields)


async def _private_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, PrivateError)
    if isinstance(error, PaymentRequired):
        field = payment_required_field(error.document)
        return private_response(error.status, error.document, field, *error.receipt)
    return _coded(error.status, error.code, error.message, *error.fields())


def _coded(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Response:
    return private_response(status, CodedErrorBody(error=code, message=message).encode(), *headers)

"""`/badge/…`: live badges from memory; errors are badges too."""

import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from barograph.badges import content as contents
from barograph.badges.content import (
    SINCE_PATTERN,
    STYLES,
    BadgeContent,
    since_from_query,
    style_from_query,
)
from barograph.badges.documents import (
    BADGE_FOLDER,
    FORMS,
    SVG,
    EndpointBadge,
    Form,
    badge_document,
    cache_control,
    hot_documents,
)
from barograph.badges.reader import BadgeReader
from barograph.badges.svg import Style
from barograph.board.board import Board
from barograph.kit.documents import CORS, JSON, Document, HotKey
from barograph.kit.http import DocumentResponse
from barograph.kit.wire import json_content
from barograph.markets.symbols import PATTERN, is_normalized


class _Kind(NamedTuple):
    """One kind of badge, with its OpenAPI description."""

    path: str
    operation_id: str
    summary: str
    read: Callable[[Request, int], BadgeContent | None]
    """Its current content; None if there is no such badge."""

    parameters: tuple[dict[str, Any], ...] = ()


def hot_badges(board: Board, reader: BadgeReader, now: int) -> dict[HotKey, Document]:
    """The badges without parameters, for as long as they are certainly correct."""
    documents = hot_documents("record", reader.record(now), now)
    documents |= hot_documents("regime", reader.regime(board, now), now)
    documents |= hot_documents("status", reader.status(board, now), now)
    for key, timed in reader.signals(board, now).items():
        documents |= hot_documents(f"signal/{key}", timed, now)
    return documents


def badge_routes(board: Board, reader: BadgeReader) -> APIRouter:
    """The routes of all badges and, last, a 404 badge for every other path."""
    router = APIRouter(prefix=BADGE_FOLDER.rstrip("/"), tags=["badges"])
    for kind in _kinds(board, reader):
        for form in FORMS:
            router.add_api_route(
                f"/{kind.path}.{form}",
                _endpoint(board, kind, form),
                methods=["GET"],
                summary=f"{kind.summary}, {_IN_WORDS[form]}",
                operation_id=f"{kind.operation_id}{form.capitalize()}",
                openapi_extra={"parameters": [*kind.parameters, _STYLE]},
                **_described(form, may_miss="{" in kind.path),
            )

    @router.get("/{path:path}", include_in_schema=False)
    async def not_found(request: Request, path: str) -> Response:
        return _not_found(request, _form(path))

    return router


def _kinds(board: Board, reader: BadgeReader) -> tuple[_Kind, ...]:
    def record(request: Request, now: int) -> BadgeContent:
        query = request.query_params
        if "sinceDate" in query:
            return contents.record(since_from_query(query), now).content
        return reader.record(now).content

    def regime(_: Request, now: int) -> BadgeContent:
        return reader.regime(board, now).content

    def funding(request: Request, now: int) -> BadgeContent | None:
        symbol: str = request.path_params["symbol"]
        # Checked first, because `upper` can turn other letters into ASCII.
        if not symbol.isascii() or not is_normalized(symbol.upper()):
            return None
        return reader.funding(board, symbol.upper(), now).content

    def signal(request: Request, now: int) -> BadgeContent | None:
        timed = reader.signals(board, now).get(request.path_params["key"])
        return None if timed is None else timed.content

    def status(_: Request, now: int) -> BadgeContent:
        return reader.status(board, now).content

    keys = {"type": "string", "enum": list(reader.signal_names)}
    return (
        _Kind("record", "getRecordBadge", "Age of the legacy paper record", record, (_SINCE,)),
        _Kind("regime", "getRegimeBadge", "The regime", regime),
        _Kind(
            "funding/{symbol}", "getFundingBadge", "Funding of one perpetual", funding, (_SYMBOL,)
        ),
        _Kind(
            "signal/{key}",
            "getSignalBadge",
            "One public signal",
            signal,
            (_in_path("key", "The signal's key.", keys),),
        ),
        _Kind("status", "getStatusBadge", "Health of feed and API", status),
    )


def refused_badge(path: str, status: int) -> Response:
    """The badge of a request that was refused before routing; its query is ignored."""
    return _error_badge(_REFUSED.get(status, contents.ERROR), status, "flat", _form(path))


def _endpoint(board: Board, kind: _Kind, form: Form) -> Callable[[Request], Awaitable[Response]]:
    async def read(request: Request) -> Response:
        now = board.clock()
        content = kind.read(request, now)
        if content is None:
            return _not_found(request, form)
        style = style_from_query(request.query_params)
        return DocumentResponse(badge_document(content, style, form), now)

    return read


def _form(path: str) -> Form:
    return "json" if path.endswith(".json") else "svg"


def _not_found(request: Request, form: Form) -> Response:
    return _error_badge(contents.NOT_FOUND, 404, style_from_query(request.query_params), form)


def _error_badge(content: BadgeContent, status: int, style: Style, form: Form) -> Response:
    body = badge_document(content, style, form).body
    response = Response(body, status)
    response.raw_headers = [
        (b"content-type", SVG if form == "svg" else JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", cache_control(content)),
        *CORS,
    ]
    return response


_REFUSED: dict[int, BadgeContent] = {
    HTTPStatus.NOT_FOUND: contents.NOT_FOUND,
    HTTPStatus.REQUEST_URI_TOO_LONG: contents.QUERY_TOO_LONG,
}
_SVG = {"type": "string", "format": "binary"}
"""Binary: generated clients refuse to decode a string whose media type isn't text or JSON."""


def _described(form: Form, *, may_miss: bool) -> dict[str, Any]:
    """How the answers are described; a badge can be missing only where the path varies."""
    texts = {414: "The query is too long or has too many parameters."}
    if may_miss:
        texts[404] = "No such badge."
    too_long = badge_document(contents.QUERY_TOO_LONG, "flat", form).body
    if form == "json":
        content, example = json_content(EndpointBadge.__name__), json.loads(too_long)
        described: dict[str, Any] = {"response_model": EndpointBadge}
    else:
        content, example = {"image/svg+xml": {"schema": _SVG}}, too_long.decode()
        described = {"response_model": None, "response_class": Response}
        texts[200] = "The badge."
    responses: dict[int, dict[str, Any]] = {
        status: {"description": text, "content": deepcopy(content)}
        for status, text in texts.items()
    }
    for media in content:
        responses[414]["content"][media]["example"] = example
    return {**described, "responses": responses}


def _in_path(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


_IN_WORDS: dict[Form, str] = {"svg": "as a picture", "json": "for the endpoint badge of Shields"}
_SYMBOL = _in_path(
    "symbol",
    "Base asset or full perpetual name; case does not matter.",
    {"type": "string", "pattern": PATTERN},
)
_STYLE = {
    "name": "style",
    "in": "query",
    "required": False,
    "description": "How it is drawn; anything else is drawn flat.",
    "schema": {"type": "string", "enum": list(STYLES), "default": "flat"},
}
_SINCE = {
    "name": "sinceDate",
    "in": "query",
    "required": False,
    "description": "An ISO date or timestamp, without an offset in UTC; absent: the configured "
    "start of the record. One that cannot be read gives a badge that says so.",
    "schema": {"type": "string", "pattern": SINCE_PATTERN},
    "example": "2025-01-31",
}

"""`/badge/…`: live badges from memory; errors are badges too."""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.badges import contents
from barograph.badges.contents import (
    SINCE_PATTERN,
    STYLES,
    BadgeContent,
    since_from_query,
    style_from_query,
)
from barograph.badges.documents import (
    BADGE_FOLDER,
    FORMS,
    GAUGE_PATH,
    POLICY,
    SVG,
    EndpointBadge,
    Form,
    badge_document,
    cache_control,
    gauge_document,
    hot_documents,
)
from barograph.badges.gauge import GaugeContent, render_gauge
from barograph.badges.reader import BadgeReader
from barograph.badges.svg import Style
from barograph.board.board import Board
from barograph.kit.documents import CORS, JSON, Document, HotKey
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import Schema, json_content, operation, parameter
from barograph.markets.symbols import PATTERN, normalized
from barograph.signals.methods import BY_KEY


class _Kind(NamedTuple):
    """One kind of badge, and how it is described."""

    path: str
    operation_id: str
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
    for kind, timed in reader.accuracy(board, now).items():
        documents |= hot_documents(f"accuracy/{kind}", timed, now)
    return documents


def badge_routes(board: Board, reader: BadgeReader) -> ApiRouter:
    """The routes of all badges and, last, a 404 badge for every other path."""
    router = ApiRouter(prefix=BADGE_FOLDER.rstrip("/"), tags=["badges"])
    for kind in _kinds(board, reader):
        for form in FORMS:
            add = router.get(f"/{kind.path}.{form}", **_described(kind, form))
            add(_endpoint(board, kind, form))

    @router.get(f"/{GAUGE_PATH.removeprefix(BADGE_FOLDER)}", **_gauge_described())
    async def gauge(_: Request) -> Response:
        now = board.clock()
        return DocumentResponse(gauge_document(reader.gauge(board, now)), now)

    @router.get("/{path:path}")
    async def not_found(request: Request) -> Response:
        return _not_found(request, _form(request.path_params["path"]))

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
        symbol = normalized(request.path_params["symbol"])
        return None if symbol is None else reader.funding(board, symbol, now).content

    def signal(request: Request, now: int) -> BadgeContent | None:
        timed = reader.signals(board, now).get(request.path_params["key"])
        return None if timed is None else timed.content

    def accuracy(request: Request, now: int) -> BadgeContent | None:
        timed = reader.accuracy(board, now).get(request.path_params["kind"])
        return None if timed is None else timed.content

    def status(_: Request, now: int) -> BadgeContent:
        return reader.status(board, now).content

    key = parameter("path", "key", "The key of the signal.", enum=list(BY_KEY))
    of_kind = parameter("path", "kind", "The kind of stance.", enum=list(contents.ACCURACY_OF))
    return (
        _Kind("record", "getRecordBadge", record, (_SINCE,)),
        _Kind("regime", "getRegimeBadge", regime),
        _Kind("funding/{symbol}", "getFundingBadge", funding, (_SYMBOL,)),
        _Kind("signal/{key}", "getSignalBadge", signal, (key,)),
        _Kind("accuracy/{kind}", "getAccuracyBadge", accuracy, (of_kind,)),
        _Kind("status", "getStatusBadge", status),
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
        *([POLICY] if form == "svg" else []),
        *CORS,
    ]
    return response


_REFUSED: dict[int, BadgeContent] = {
    HTTPStatus.NOT_FOUND: contents.NOT_FOUND,
    HTTPStatus.REQUEST_URI_TOO_LONG: contents.QUERY_TOO_LONG,
}
_SVG = {"image/svg+xml": {"schema": {"type": "string", "format": "binary"}}}
"""Binary: generated clients refuse to decode a string whose media type isn't text or JSON."""


def _described(kind: _Kind, form: Form) -> dict[str, Any]:
    answers: dict[int, str | Schema] = {414: _too_long(form)}
    if "{" in kind.path:
        answers[404] = _answer(form, "No such badge.")
    if form == "svg":
        answers[200] = _answer(form, "The badge.")
    return operation(
        f"{kind.operation_id}{form.capitalize()}",
        EndpointBadge if form == "json" else None,
        *kind.parameters,
        _STYLE,
        responses=answers,
    )


def _gauge_described() -> dict[str, Any]:
    example = render_gauge(GaugeContent("neutral", 0.01, "simulated exchange (demo data)"))
    drawn = _answer("svg", "The gauge.", example=example)
    answers: dict[int, str | Schema] = {200: drawn, 414: _too_long("svg")}
    return operation("getRegimeGauge", None, responses=answers)


def _too_long(form: Form) -> Schema:
    body = badge_document(contents.QUERY_TOO_LONG, "flat", form).body
    example = json.loads(body) if form == "json" else body.decode()
    return _answer(form, "The query is too long or has too many parameters.", example=example)


def _answer(form: Form, description: str, **example: object) -> Schema:
    content = json_content(EndpointBadge.__name__) if form == "json" else _SVG
    shown = {media: {**each, **example} for media, each in content.items()}
    return {"description": description, "content": shown}


_SYMBOL = parameter(
    "path", "symbol", "Base asset or full contract name, in upper or lower case.", pattern=PATTERN
)
_STYLE = parameter(
    "query", "style", "Any other value means flat.", enum=list(STYLES), default="flat"
)
_SINCE = parameter(
    "query",
    "sinceDate",
    "An ISO date or timestamp (UTC if it has no offset). Default: the configured start of the "
    "record. If the value cannot be read, the badge says so.",
    pattern=SINCE_PATTERN,
    example="2025-01-31",
)

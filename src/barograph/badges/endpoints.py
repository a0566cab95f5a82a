"""`/badge/…`: live badges from the data in memory; errors are badges too."""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.accuracy.records import ACCURACY
from barograph.badges import documents
from barograph.badges.documents import (
    BADGE_FOLDER,
    FORMS,
    GAUGE_PATH,
    POLICY,
    SINCE_PATTERN,
    STYLES,
    SVG,
    BadgeContent,
    EndpointBadge,
    Form,
    TimedContent,
    badge_document,
    cache_control,
    gauge_document,
    hot_documents,
    parse_since,
    since_from_query,
    style_from_query,
)
from barograph.badges.svg import GaugeContent, Style, render_gauge
from barograph.board.board import Board
from barograph.errors import UpstreamUnavailable
from barograph.kit.documents import CORS, JSON, Document, HotKey
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.kit.wire import Schema, json_content, operation, parameter
from barograph.markets.reader import MarketReader
from barograph.markets.symbols import PATTERN, normalized
from barograph.markets.view import MarketView
from barograph.signals.methods import BY_KEY, METHODS
from barograph.signals.reader import SignalsReader
from barograph.status.reader import StatusReader

STATUS_KEEP_MS = 2 * SECOND
SIGNALS_KEEP_MS = 10 * SECOND


class BadgeReader(NamedTuple):
    """The content of every badge at an instant."""

    markets: MarketReader
    signals_reader: SignalsReader
    status_reader: StatusReader
    record_since: str

    def view(self, board: Board, now: int) -> MarketView | None:
        """The fresh facts about the market; None while the market feed is stale."""
        try:
            return self.markets.view(board, now)
        except UpstreamUnavailable:
            return None

    def record(self, now: int) -> TimedContent:
        """The record since the configured start."""
        if not self.record_since:
            return documents.record_not_started()
        return documents.record(parse_since(self.record_since), now)

    def regime(self, board: Board, now: int) -> TimedContent:
        """The regime; unavailable while the market feed is stale."""
        view = self.view(board, now)
        if view is None:
            return documents.unavailable("regime")
        if view.regime is None:
            return documents.regime("unknown", view.perpetuals.source, 0)
        until = min(view.until, view.regime.as_of + view.limits.perpetuals)
        return documents.regime(view.regime.label, view.perpetuals.source, until)

    def gauge(self, board: Board, now: int) -> GaugeContent:
        """The regime and its rate; without a label while the market feed is stale."""
        view = self.view(board, now)
        if view is None:
            return GaugeContent(None, None, "")
        if view.regime is None:
            return GaugeContent("unknown", None, view.perpetuals.source)
        regime = view.regime
        return GaugeContent(regime.label, regime.funding_8h_pct, view.perpetuals.source)

    def funding(self, board: Board, symbol: str, now: int) -> TimedContent:
        """The funding of a perpetual by its asset or full name, in upper case."""
        view = self.view(board, now)
        if view is None:
            return documents.unavailable(f"{symbol} funding")
        perpetual = view.by_name.get(symbol)
        return documents.funding(symbol, perpetual, view.perpetuals.source, view.until)

    def signals(self, board: Board, now: int) -> dict[str, TimedContent]:
        """Every signal by its key."""
        labels = self.signals_reader.labels(board, now)
        later = self.signals_reader.labels(board, now + SIGNALS_KEEP_MS)
        sources, shown = self.signals_reader.sources(board), {}
        for method in METHODS:
            key, label = method.key, labels[method.key]
            # Certain for a while only if it won't expire by then.
            until = now + SIGNALS_KEEP_MS if label == later[key] else 0
            shown[key] = documents.signal(method.name, label, sources[key], until)
        return shown

    def accuracy(self, board: Board, now: int) -> dict[str, TimedContent]:
        """The track record of every kind of stance."""
        known = board.latest(ACCURACY)
        return {kind: documents.accuracy(kind, known, now) for kind in documents.ACCURACY_OF}

    def status(self, board: Board, now: int) -> TimedContent:
        """The health of the feed and the API."""
        condition = self.status_reader.status(board, now).status
        is_lasting = condition == self.status_reader.status(board, now + STATUS_KEEP_MS).status
        return documents.status(condition, now + STATUS_KEEP_MS if is_lasting else 0)


class _Kind(NamedTuple):
    """One kind of badge, and how it is described."""

    path: str
    operation_id: str
    read: Callable[[Request, int], TimedContent | None]
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
    def record(request: Request, now: int) -> TimedContent:
        if "sinceDate" in request.query_params:
            return documents.record(since_from_query(request.query_params), now)
        return reader.record(now)

    def funding(request: Request, now: int) -> TimedContent | None:
        symbol = normalized(request.path_params["symbol"])
        return None if symbol is None else reader.funding(board, symbol, now)

    def signal(request: Request, now: int) -> TimedContent | None:
        return reader.signals(board, now).get(request.path_params["key"])

    def accuracy(request: Request, now: int) -> TimedContent | None:
        return reader.accuracy(board, now).get(request.path_params["kind"])

    key = parameter("path", "key", "The key of the signal.", enum=list(BY_KEY))
    of_kind = parameter("path", "kind", "The kind of stance.", enum=list(documents.ACCURACY_OF))
    return (
        _Kind("record", "getRecordBadge", record, (_SINCE,)),
        _Kind("regime", "getRegimeBadge", lambda _, now: reader.regime(board, now)),
        _Kind("funding/{symbol}", "getFundingBadge", funding, (_SYMBOL,)),
        _Kind("signal/{key}", "getSignalBadge", signal, (key,)),
        _Kind("accuracy/{kind}", "getAccuracyBadge", accuracy, (of_kind,)),
        _Kind("status", "getStatusBadge", lambda _, now: reader.status(board, now)),
    )


def refused_badge(path: str, status: int) -> Response:
    """The badge of a request that was refused before routing; its query is ignored."""
    return _error_badge(_REFUSED.get(status, documents.ERROR), status, "flat", _form(path))


def _endpoint(board: Board, kind: _Kind, form: Form) -> Callable[[Request], Awaitable[Response]]:
    async def read(request: Request) -> Response:
        now = board.clock()
        timed = kind.read(request, now)
        if timed is None:
            return _not_found(request, form)
        style = style_from_query(request.query_params)
        return DocumentResponse(badge_document(timed.content, style, form), now)

    return read


def _form(path: str) -> Form:
    return "json" if path.endswith(".json") else "svg"


def _not_found(request: Request, form: Form) -> Response:
    return _error_badge(documents.NOT_FOUND, 404, style_from_query(request.query_params), form)


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
    HTTPStatus.NOT_FOUND: documents.NOT_FOUND,
    HTTPStatus.REQUEST_URI_TOO_LONG: documents.QUERY_TOO_LONG,
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
    body = badge_document(documents.QUERY_TOO_LONG, "flat", form).body
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

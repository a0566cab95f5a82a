"""`/data/…`: the record behind the charts, free for everyone."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from barograph.board.board import Board
from barograph.errors import InvalidRequest, RequestError, UpstreamUnavailable
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse, error_response
from barograph.kit.wire import ErrorBody
from barograph.markets.feeds import PERPETUALS
from barograph.markets.records import Perpetual, Perpetuals
from barograph.markets.samples import (
    DAYS,
    DEFAULT_DAYS,
    MEASURES,
    Measure,
)
from barograph.markets.symbols import INVALID, PATTERN, is_normalized
from barograph.site.series.documents import (
    DATA_FOLDER,
    LIQUIDATIONS,
    Form,
    RecordedLiquidations,
    RecordedSeries,
    days_from_query,
    liquidations_document,
    series_document,
)
from barograph.site.series.reader import SeriesReader

RETRY_SECONDS = 5
UNREADABLE = "the record cannot be read at the moment; try again shortly"


class UnknownSeries(RequestError):
    """There is no such series."""

    status = 404


class _Index(NamedTuple):
    """The contracts of one reading by base asset and by full name, in upper case."""

    reading: Perpetuals
    by_name: dict[str, Perpetual]


class _Contracts:
    """Finds contracts in the last reading, whatever its age: their record stays true."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._index: _Index | None = None

    def find(self, symbol: str) -> Perpetual:
        """The contract that a symbol means.

        Raises:
            UnknownSeries: there is none.
            UpstreamUnavailable: no contract is known at all.
        """
        reading = self._board.latest(PERPETUALS)
        if reading is None:
            raise UpstreamUnavailable
        if self._index is None or self._index.reading is not reading:
            by_contract = {each.contract.upper(): each for each in reading.contracts}
            by_base = {each.base.upper(): each for each in reading.contracts}
            self._index = _Index(reading, by_contract | by_base)
        found = self._index.by_name.get(symbol)
        if found is None:
            raise UnknownSeries(f"unknown symbol {symbol}")
        return found


def series_routes(reader: SeriesReader, board: Board, source: str) -> APIRouter:
    """The routes of every download; `source` names the venue."""
    router = APIRouter(tags=["data"])
    contracts = _Contracts(board)

    async def answer(request: Request, form: Form) -> Response:
        symbol, measure = _symbol(request), _measure(request)
        days = days_from_query(request.scope["query_string"])
        contract = contracts.find(symbol).contract

        async def document() -> Document:
            series = await reader.reading(contract, measure, days)
            return series_document(series, symbol, source, form)

        return await _readable(document, board.clock)

    async def answer_liquidations(request: Request, form: Form) -> Response:
        days = days_from_query(request.scope["query_string"])

        async def document() -> Document:
            return liquidations_document(await reader.liquidations(days), source, form)

        return await _readable(document, board.clock)

    _route_liquidations(router, answer_liquidations)
    _route_readings(router, answer)
    return router


_Answer = Callable[[Request, Form], Coroutine[Any, Any, Response]]


def _route_readings(router: APIRouter, answer: _Answer) -> None:
    @router.get(
        DATA_FOLDER + "{symbol}/{measure}.json",
        response_model=RecordedSeries,
        summary="One measure of one perpetual over the last days",
        operation_id="getSeries",
        responses={400: _INVALID, 404: _UNKNOWN, 502: _UNAVAILABLE, 503: _UNREADABLE},
        openapi_extra={"parameters": [_SYMBOL, _MEASURE, _DAYS]},
    )
    async def as_json(request: Request) -> Response:
        return await answer(request, "json")

    @router.get(
        DATA_FOLDER + "{symbol}/{measure}.csv",
        response_model=None,
        response_class=Response,
        summary="The same as a table",
        operation_id="getSeriesTable",
        responses={200: _TABLE, 400: _INVALID, 404: _UNKNOWN, 502: _UNAVAILABLE, 503: _UNREADABLE},
        openapi_extra={"parameters": [_SYMBOL, _MEASURE, _DAYS]},
    )
    async def as_csv(request: Request) -> Response:
        return await answer(request, "csv")


def _route_liquidations(router: APIRouter, answer: _Answer) -> None:
    @router.get(
        f"{DATA_FOLDER}{LIQUIDATIONS}.json",
        response_model=RecordedLiquidations,
        summary="Liquidations of all perpetuals over the last days",
        operation_id="getLiquidations",
        responses={400: _INVALID, 503: _UNREADABLE},
        openapi_extra={"parameters": [_DAYS]},
    )
    async def as_json(request: Request) -> Response:
        return await answer(request, "json")

    @router.get(
        f"{DATA_FOLDER}{LIQUIDATIONS}.csv",
        response_model=None,
        response_class=Response,
        summary="The same as a table",
        operation_id="getLiquidationsTable",
        responses={200: _TABLE, 400: _INVALID, 503: _UNREADABLE},
        openapi_extra={"parameters": [_DAYS]},
    )
    async def as_csv(request: Request) -> Response:
        return await answer(request, "csv")


def _symbol(request: Request) -> str:
    given: str = request.path_params["symbol"]
    symbol = given.upper()
    # Outside ASCII, what is no letter of a symbol may become one in upper case.
    if not (given.isascii() and is_normalized(symbol)):
        raise InvalidRequest(INVALID.removesuffix(", given once"))
    return symbol


def _measure(request: Request) -> Measure:
    given = request.path_params["measure"]
    for measure in MEASURES:
        if measure == given:
            return measure
    raise UnknownSeries(f"unknown measure; the measures are {', '.join(MEASURES)}")


async def _readable(
    document: Callable[[], Coroutine[Any, Any, Document]], clock: Clock
) -> Response:
    try:
        return DocumentResponse(await document(), clock())
    except DatabaseUnavailable:
        return error_response(503, UNREADABLE, (b"retry-after", b"%d" % RETRY_SECONDS))


_TABLE: dict[str, Any] = {
    "content": {"text/csv": {"schema": {"type": "string"}}},
    "description": "A table by RFC 4180 with a header; a cell is empty where nothing is known.",
}
_INVALID: dict[str, Any] = {"model": ErrorBody, "description": "Invalid symbol or days."}
_UNKNOWN: dict[str, Any] = {"model": ErrorBody, "description": "Unknown symbol or measure."}
_UNAVAILABLE: dict[str, Any] = {"model": ErrorBody, "description": "No contract is known yet."}
_UNREADABLE: dict[str, Any] = {"model": ErrorBody, "description": "The record cannot be read."}
_SYMBOL = {
    "name": "symbol",
    "in": "path",
    "required": True,
    "description": "Base asset or full perpetual name; case does not matter.",
    "schema": {"type": "string", "pattern": PATTERN},
    "example": "BTC",
}
_MEASURE = {
    "name": "measure",
    "in": "path",
    "required": True,
    "description": "What was measured.",
    "schema": {"type": "string", "enum": list(MEASURES)},
    "example": "funding",
}
_DAYS = {
    "name": "days",
    "in": "query",
    "required": False,
    "description": "How many days back.",
    "schema": {"type": "integer", "enum": list(DAYS), "default": DEFAULT_DAYS},
    "example": 7,
}

"""The free market endpoints."""

from fastapi import APIRouter, Request

from barograph.board.board import Board
from barograph.kit.http import DocumentResponse
from barograph.kit.wire import refusal
from barograph.markets.documents import (
    DERIVATIVES_PATH,
    MARKET_PATH,
    MARKET_STATE_PATH,
    Market,
    MarketState,
    PerpetualRecord,
    derivatives_document,
    market_document,
    market_state_document,
)
from barograph.markets.reader import MarketReader
from barograph.markets.symbols import DEFAULT, PATTERN, symbol_from_query


def market_routes(board: Board, reader: MarketReader) -> APIRouter:
    """The routes of `/api/agent/derivatives`, `/api/agent/market` and `/api/agent/market-state`."""
    router = APIRouter(tags=["market"])

    @router.get(
        DERIVATIVES_PATH,
        response_model=PerpetualRecord,
        summary="Price, funding, open interest and positioning of one perpetual",
        operation_id="getDerivatives",
        responses={400: _INVALID_SYMBOL, 502: _UNAVAILABLE},
        openapi_extra={"parameters": [_SYMBOL_PARAMETER]},
    )
    async def derivatives(request: Request) -> DocumentResponse:
        symbol = symbol_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(derivatives_document(reader.view(board, now), symbol), now)

    @router.get(
        MARKET_PATH,
        response_model=Market,
        summary="Funding and price snapshot of BTC, ETH and SOL",
        operation_id="getMarket",
        responses={502: _UNAVAILABLE},
    )
    async def market() -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_document(reader.view(board, now)), now)

    @router.get(
        MARKET_STATE_PATH,
        response_model=MarketState,
        summary="Consolidated market state: assets, liquidations and regime",
        operation_id="getMarketState",
        responses={502: _UNAVAILABLE},
    )
    async def market_state() -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_state_document(reader.view(board, now)), now)

    return router


_INVALID_SYMBOL = refusal("Invalid symbol.")
_UNAVAILABLE = refusal("Upstream unavailable.")
_SYMBOL_PARAMETER = {
    "name": "symbol",
    "in": "query",
    "required": False,
    "description": "Base asset or full perpetual name; case does not matter.",
    "schema": {"type": "string", "pattern": PATTERN, "default": DEFAULT},
    "example": "ETH",
}

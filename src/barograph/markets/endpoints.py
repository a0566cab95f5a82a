"""The free market endpoints."""

from starlette.requests import Request

from barograph.board.board import Board
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import operation, parameter
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
from barograph.markets.symbols import DEFAULT_SYMBOL, PATTERN, symbol_from_query


def market_routes(board: Board, reader: MarketReader) -> ApiRouter:
    """The routes of `/api/agent/derivatives`, `/api/agent/market` and `/api/agent/market-state`."""
    router = ApiRouter(tags=["market"])

    @router.get(
        DERIVATIVES_PATH,
        **operation(
            "getDerivatives", PerpetualRecord, _SYMBOL, responses={400: "Invalid symbol.", **_STALE}
        ),
    )
    async def derivatives(request: Request) -> DocumentResponse:
        symbol = symbol_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(derivatives_document(reader.view(board, now), symbol), now)

    @router.get(MARKET_PATH, **operation("getMarket", Market, responses=_STALE))
    async def market(_: Request) -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_document(reader.view(board, now)), now)

    @router.get(MARKET_STATE_PATH, **operation("getMarketState", MarketState, responses=_STALE))
    async def market_state(_: Request) -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_state_document(reader.view(board, now)), now)

    return router


_STALE = {502: "No fresh market data."}
_SYMBOL = parameter(
    "query",
    "symbol",
    "Base asset or full contract name, in upper or lower case.",
    pattern=PATTERN,
    default=DEFAULT_SYMBOL,
    example="ETH",
)

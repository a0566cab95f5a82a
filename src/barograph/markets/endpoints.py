"""The free market endpoints, of one venue and of all venues compared."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request

from barograph.board.board import Board
from barograph.errors import InvalidRequest
from barograph.kit.caches import SingleFlight
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import (
    FORMAT_PARAMETER,
    VENUE_IN_USE_PARAMETER,
    also_table,
    given_parameters,
    one_of,
    page_limit,
    wants_csv,
)
from barograph.kit.wire import Schema, operation, parameter
from barograph.markets.carry import (
    CARRY_COLUMNS,
    CARRY_PATH,
    DEFAULT_WINDOW,
    CarryCoin,
    CarryList,
    carry,
    carry_document,
)
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_bodies import CROSS_COLUMNS, CrossBody, CrossList
from barograph.markets.cross_documents import (
    CROSS_PATH,
    coin_document,
    cross_document,
    cross_table,
    encoded_coins,
)
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
from barograph.markets.perpetuals import (
    COLUMNS,
    PERPETUALS_PATH,
    PerpetualBody,
    PerpetualList,
    cut_document,
    list_document,
    perpetual_document,
)
from barograph.markets.reader import CrossReader, MarketReader
from barograph.markets.settlements import WINDOW_DAYS
from barograph.markets.symbols import (
    DEFAULT_SYMBOL,
    NAME_PATTERN,
    PATTERN,
    require_contract,
    symbol_from_query,
    symbol_of,
)
from barograph.markets.venue_documents import VENUES_PATH, VenueList
from barograph.venues.records import majors_first

T = TypeVar("T")


def market_routes(board: Board, reader: MarketReader) -> ApiRouter:
    """The routes of `/api/agent/derivatives`, `/api/agent/market` and `/api/agent/market-state`."""
    router = ApiRouter(tags=["market"])

    @router.get(
        DERIVATIVES_PATH,
        **operation(
            "getDerivatives", PerpetualRecord, _SYMBOL, responses={400: "Invalid symbol.", **STALE}
        ),
    )
    async def derivatives(request: Request) -> DocumentResponse:
        symbol = symbol_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(derivatives_document(reader.view(board, now), symbol), now)

    @router.get(MARKET_PATH, **operation("getMarket", Market, responses=STALE))
    async def market(_: Request) -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_document(reader.view(board, now)), now)

    @router.get(MARKET_STATE_PATH, **operation("getMarketState", MarketState, responses=STALE))
    async def market_state(_: Request) -> DocumentResponse:
        now = board.clock()
        return DocumentResponse(market_state_document(reader.view(board, now)), now)

    return router


class PerpetualsAnswer(NamedTuple):
    """Renders perpetuals for the endpoints.

    The first request after a change renders a document, and the board keeps it for the others. If
    each publication rendered all of them, every worker would spend about 40 ms on it.
    """

    board: Board
    reader: MarketReader
    venues: Sequence[str]

    def listed(self, form: str, given: Mapping[str, str]) -> Document:
        """The list, or its first entries up to `limit`; raises as `MarketReader.view_of`."""
        limit, venue = page_limit(given), given.get("venue")
        view = self.reader.view_of(self.board, venue, self.board.clock())
        contracts = majors_first(view.perpetuals)
        render = partial(list_document, view, contracts, form)
        keys = _HOT[form] if venue is None else [(_HOT[form][0][0], f"venue={venue}".encode())]
        whole = self._kept(view.now, keys, render)
        is_cut = "limit" in given and limit < len(contracts)
        return cut_document(view, whole, form, limit) if is_cut else whole

    def one(self, text: str, venue: str | None) -> Document:
        """One perpetual; raises as `MarketReader.view_of` and `require_contract`."""
        view = self.reader.view_of(self.board, venue, self.board.clock())
        contract = require_contract(view.by_name, text)
        symbol = symbol_of(view.by_name, contract)
        is_hot = symbol is not None and venue is None
        keys = [(f"{PERPETUALS_PATH}/{symbol}", b"")] if is_hot else []
        return self._kept(view.now, keys, partial(perpetual_document, view, contract))

    def _kept(self, now: int, keys: Sequence[HotKey], render: Callable[[], Document]) -> Document:
        kept = self.board.hot.get(keys[0]) if keys else None
        if kept is None or not kept.since <= now < kept.until:
            kept = render()
            self.board.hot |= dict.fromkeys(keys, kept)
        return kept


def perpetual_routes(answer: PerpetualsAnswer) -> ApiRouter:
    """The routes of `/api/v1/perpetuals`."""
    router = ApiRouter(tags=["market"])

    @router.get(f"{PERPETUALS_PATH}.csv")
    @router.get(
        PERPETUALS_PATH,
        **operation(
            "getPerpetuals",
            PerpetualList,
            *_LIST_PARAMETERS,
            responses={
                200: also_table(COLUMNS),
                400: "Invalid parameter.",
                404: "Unknown venue.",
                **STALE,
            },
        ),
    )
    async def listed(request: Request) -> DocumentResponse:
        given = given_parameters(request.query_params, _LIST_PARAMETERS, answer.venues)
        form = "csv" if wants_csv(request.url.path, given) else "json"
        document = answer.listed(form, given)
        return DocumentResponse(document, answer.board.clock())

    @router.get(
        f"{PERPETUALS_PATH}/{{symbol}}",
        **operation(
            "getPerpetual",
            PerpetualBody,
            _NAME,
            VENUE_IN_USE_PARAMETER,
            responses={400: "Invalid symbol.", 404: "Unknown symbol or venue.", **STALE},
        ),
    )
    async def perpetual(request: Request) -> DocumentResponse:
        given = given_parameters(request.query_params, [VENUE_IN_USE_PARAMETER], answer.venues)
        document = answer.one(request.path_params["symbol"], given.get("venue"))
        return DocumentResponse(document, answer.board.clock())

    return router


class CrossAnswer:
    """Renders the cross-venue view.

    The first request after a comparison renders a long document, in a thread; meanwhile, others get
    the one before.
    """

    def __init__(self, board: Board, reader: CrossReader) -> None:
        self.board, self.reader = board, reader
        self._newest: CrossMarket | None = None
        self._kept: dict[str, _Rendered[Any]] = {}
        """Of the newest comparison and the one before; each comparison takes some megabytes."""

        self._flights: SingleFlight[str, _Rendered[Any]] = SingleFlight()

    async def listed(self, given: Mapping[str, str]) -> Document:
        """All coins, or the first up to `limit`; raises as `CrossReader.market`."""
        limit, hot = page_limit(given), self.board.hot
        market, coins, document = await self._rendered(CROSS_PATH, _all_coins)
        if "limit" in given and limit < len(coins):
            return cross_document(market, coins[:limit], compress=False)
        return _kept_hot(hot, document, (CROSS_PATH, b""))

    async def table(self) -> Document:
        """All coins as CSV; raises as `CrossReader.market`."""
        path, hot = f"{CROSS_PATH}.csv", self.board.hot
        document = (await self._rendered(path, lambda market: ((), cross_table(market)))).document
        return _kept_hot(hot, document, (path, b""), (CROSS_PATH, b"format=csv"))

    async def one(self, text: str) -> Document:
        """One coin; raises as `CrossReader.market` and `coin`."""
        hot, market = self.board.hot, await self.reader.market(self.board)
        coin = self.reader.coin(market, text)
        return _kept_hot(hot, coin_document(market, coin), (f"{CROSS_PATH}/{coin.asset}", b""))

    async def carry(self, given: Mapping[str, str], *, is_table: bool = False) -> Document:
        """What positions earned or paid; raises as `CrossReader.market` and `coin`."""
        limit = page_limit(given) if "limit" in given else None
        window = one_of(given, "window", WINDOW_DAYS, DEFAULT_WINDOW, InvalidRequest)
        path = CARRY_PATH + (".csv" if is_table else "")
        render, hot = partial(_all_carry, window=window, is_table=is_table), self.board.hot
        market, coins, document = await self._rendered(f"{path}?{window}", render)
        if not given.keys() - {"window"}:
            return _kept_hot(hot, document, (path, urlencode(given).encode()))
        if "coin" in given:
            asset = self.reader.coin(market, given["coin"]).asset
            coins = [coin for coin in coins if coin.coin == asset]
        return carry_document(market, coins[:limit], window, is_table=is_table)

    async def _rendered(
        self, key: str, render: Callable[[CrossMarket], tuple[Sequence[T], Document]]
    ) -> "_Rendered[T]":
        while True:  # comparing and rendering take time, and a fact may expire meanwhile
            found = await self._render(key, render)
            if self.board.clock() < found.document.until:
                return found

    async def _render(
        self, key: str, render: Callable[[CrossMarket], tuple[Sequence[T], Document]]
    ) -> "_Rendered[T]":
        market = await self.reader.market(self.board)
        if market is not self._newest:
            last = {name: each for name, each in self._kept.items() if each.market is self._newest}
            self._kept, self._newest = last, market
        kept = self._kept.get(key)
        if kept is not None and kept.market is market:
            return kept
        if kept is not None and key in self._flights and self.board.clock() < kept.document.until:
            return kept

        async def work() -> _Rendered[T]:
            return _Rendered(market, *await asyncio.to_thread(render, market))

        kept = self._kept[key] = await self._flights.do(key, work)
        return kept


def _kept_hot(hot: dict[HotKey, Document], document: Document, *keys: HotKey) -> Document:
    """Keep a document in `hot`, that of the board from before it was rendered.

    The board drops it at the next change of any data.
    """
    hot |= dict.fromkeys(keys, document)
    return document


class _Rendered(NamedTuple, Generic[T]):
    """Coins of a comparison, and the document of all of them."""

    market: CrossMarket
    coins: Sequence[T]
    document: Document


def _all_coins(market: CrossMarket) -> tuple[Sequence[bytes], Document]:
    coins = encoded_coins(market)
    return coins, cross_document(market, coins, compress=True)


def _all_carry(
    market: CrossMarket, window: str, *, is_table: bool
) -> tuple[Sequence[CarryCoin], Document]:
    coins = carry(market, window)
    return coins, carry_document(market, coins, window, is_table=is_table)


def cross_routes(answer: CrossAnswer) -> ApiRouter:
    """The routes of the cross-venue view."""
    router = ApiRouter(tags=["venues"])
    clock = answer.board.clock

    @router.get(
        VENUES_PATH, **operation("getVenues", VenueList, responses={400: "Unknown parameter."})
    )
    async def venues(request: Request) -> DocumentResponse:
        given_parameters(request.query_params, (), "")
        return DocumentResponse((await answer.reader.venues(answer.board)).document(), clock())

    @router.get(f"{CROSS_PATH}.csv")
    @router.get(
        CROSS_PATH,
        **operation(
            "getCross",
            CrossList,
            *_CROSS_PARAMETERS,
            responses={
                200: also_table(CROSS_COLUMNS),
                400: "Invalid parameter.",
                **STALE,
            },
        ),
    )
    async def cross(request: Request) -> DocumentResponse:
        given = given_parameters(request.query_params, _CROSS_PARAMETERS, "")
        is_table = wants_csv(request.url.path, given)
        document = await (answer.table() if is_table else answer.listed(given))
        return DocumentResponse(document, clock())

    @router.get(f"{CARRY_PATH}.csv")
    @router.get(
        CARRY_PATH,
        **operation(
            "getCarry",
            CarryList,
            *_CARRY_PARAMETERS,
            responses={200: also_table(CARRY_COLUMNS), **_COIN_ERRORS},
        ),
    )
    async def read_carry(request: Request) -> DocumentResponse:
        given = given_parameters(request.query_params, _CARRY_PARAMETERS, "")
        is_table = wants_csv(request.url.path, given)
        return DocumentResponse(await answer.carry(given, is_table=is_table), clock())

    @router.get(
        f"{CROSS_PATH}/{{coin}}",
        **operation(
            "getCrossCoin",
            CrossBody,
            _COIN,
            responses=_COIN_ERRORS,
        ),
    )
    async def coin(request: Request) -> DocumentResponse:
        given_parameters(request.query_params, (), "")
        return DocumentResponse(await answer.one(request.path_params["coin"]), clock())

    return router


_HOT: Mapping[str, Sequence[HotKey]] = {
    "json": [(PERPETUALS_PATH, b"")],
    "csv": [(f"{PERPETUALS_PATH}.csv", b""), (PERPETUALS_PATH, b"format=csv")],
}
STALE: Mapping[int, str] = {502: "No fresh market data."}
_COIN_ERRORS = {400: "Invalid coin or parameter.", 404: "Unknown coin.", **STALE}
_SYMBOL = parameter(
    "query",
    "symbol",
    "Base asset or full contract name, in upper or lower case.",
    pattern=PATTERN,
    default=DEFAULT_SYMBOL,
    example="ETH",
)
_NAME_RULE = "Base asset, full contract name, coin without multiplier (PEPE) or name (bitcoin)."
_NAME = parameter("path", "symbol", _NAME_RULE, example="ETH", pattern=NAME_PATTERN)
_LIMIT: Schema = {"type": "integer", "minimum": 1}
_CUT = "Only the first entries, after BTC, ETH and SOL those with the largest open interest. "
LIMIT_PARAMETER = parameter("query", "limit", f"{_CUT}Default: the whole list.", **_LIMIT)
_LIST_PARAMETERS = (VENUE_IN_USE_PARAMETER, FORMAT_PARAMETER, LIMIT_PARAMETER)
_CROSS_PARAMETERS = (FORMAT_PARAMETER, LIMIT_PARAMETER)
_COIN_RULE = "Coin (PEPE), base asset (1000PEPE), full contract name, or name (bitcoin)."
_COIN = parameter("path", "coin", _COIN_RULE, example="ETH", pattern=NAME_PATTERN)
_WINDOW: Schema = {"enum": list(WINDOW_DAYS), "default": DEFAULT_WINDOW}
_CARRY_PARAMETERS = (
    parameter("query", "window", "The window of settled funding.", **_WINDOW),
    parameter("query", "coin", f"Only this coin. {_COIN_RULE}", pattern=NAME_PATTERN),
    *(FORMAT_PARAMETER, parameter("query", "limit", "How many coins.", **_LIMIT)),
)

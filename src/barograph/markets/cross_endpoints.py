"""The endpoints of the cross-venue view: `/api/v1/venues` and `/api/v1/cross`."""

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request

from barograph.board.board import Board
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import (
    FORMAT_PARAMETER,
    also_table,
    given_parameters,
    page_limit,
    wants_csv,
)
from barograph.kit.wire import operation, parameter
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_documents import (
    COLUMNS,
    CROSS_PATH,
    VENUES_PATH,
    CrossBody,
    CrossList,
    VenueList,
    coin_document,
    cross_document,
    cross_table,
    encoded_coins,
    venues_document,
)
from barograph.markets.cross_reader import CrossReader
from barograph.markets.endpoints import LIMIT_PARAMETER, STALE
from barograph.markets.symbols import NAME_PATTERN


class CrossAnswer:
    """Renders the cross-venue view; the first request after a comparison renders a document."""

    def __init__(self, board: Board, reader: CrossReader) -> None:
        self.board, self.reader = board, reader
        self._market: CrossMarket | None = None
        self._coins: Sequence[bytes] = ()
        self._documents: dict[HotKey, Document] = {}

    def venues(self) -> Document:
        """The configured venues."""
        reader, board = self.reader, self.board
        facts, roles = reader.facts(board), reader.roles(board)
        return venues_document(facts, roles, reader.limits, board.clock())

    def listed(self, given: Mapping[str, str]) -> Document:
        """All coins, or the first up to `limit`; raises as `CrossReader.market`."""
        limit, market = page_limit(given), self._current()
        self._coins = self._coins or encoded_coins(market)
        if "limit" in given and limit < len(self._coins):
            return cross_document(market, self._coins[:limit], compress=False)
        return self._kept(
            [(CROSS_PATH, b"")], lambda: cross_document(market, self._coins, compress=True)
        )

    def table(self) -> Document:
        """All coins as CSV; raises as `CrossReader.market`."""
        market = self._current()
        keys = [(f"{CROSS_PATH}.csv", b""), (CROSS_PATH, b"format=csv")]
        return self._kept(keys, lambda: cross_table(market))

    def one(self, text: str) -> Document:
        """One coin; raises as `CrossReader.market` and `coin`."""
        market = self._current()
        coin = self.reader.coin(market, text)
        keys = [(f"{CROSS_PATH}/{coin.asset}", b"")]
        return self._kept(keys, lambda: coin_document(market, coin))

    def _current(self) -> CrossMarket:
        market = self.reader.market(self.board)
        if market is not self._market:
            self._market, self._coins, self._documents = market, (), {}
        return market

    def _kept(self, keys: Sequence[HotKey], render: Callable[[], Document]) -> Document:
        if keys[0] not in self._documents:
            self._documents[keys[0]] = render()
        # The board drops it at the next change of any data.
        self.board.hot |= dict.fromkeys(keys, self._documents[keys[0]])
        return self._documents[keys[0]]


def cross_routes(answer: CrossAnswer) -> ApiRouter:
    """The routes of the cross-venue view."""
    router = ApiRouter(tags=["venues"])
    clock = answer.board.clock

    @router.get(
        VENUES_PATH, **operation("getVenues", VenueList, responses={400: "Unknown parameter."})
    )
    async def venues(request: Request) -> DocumentResponse:
        given_parameters(request.query_params, (), "")
        return DocumentResponse(answer.venues(), clock())

    @router.get(f"{CROSS_PATH}.csv")
    @router.get(
        CROSS_PATH,
        **operation(
            "getCross",
            CrossList,
            *_LIST_PARAMETERS,
            responses={200: also_table(COLUMNS), 400: "Invalid parameter.", **STALE},
        ),
    )
    async def cross(request: Request) -> DocumentResponse:
        given = given_parameters(request.query_params, _LIST_PARAMETERS, "")
        is_table = wants_csv(request.url.path, given)
        return DocumentResponse(answer.table() if is_table else answer.listed(given), clock())

    @router.get(
        f"{CROSS_PATH}/{{coin}}",
        **operation(
            "getCrossCoin",
            CrossBody,
            _COIN,
            responses={400: "Invalid coin or parameter.", 404: "Unknown coin.", **STALE},
        ),
    )
    async def coin(request: Request) -> DocumentResponse:
        given_parameters(request.query_params, (), "")
        return DocumentResponse(answer.one(request.path_params["coin"]), clock())

    return router


_COIN = parameter(
    "path",
    "coin",
    "Coin (PEPE), base asset (1000PEPE), full contract name, or name (bitcoin).",
    example="ETH",
    pattern=NAME_PATTERN,
)
_LIST_PARAMETERS = (FORMAT_PARAMETER, LIMIT_PARAMETER)

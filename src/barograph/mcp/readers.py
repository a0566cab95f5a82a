"""The services that answer tools: those of the free endpoints, asked without HTTP."""

from collections.abc import Callable
from typing import NamedTuple

from barograph.board.board import Board
from barograph.briefs.reader import BriefsReader
from barograph.kit.documents import Document
from barograph.markets.documents import (
    DERIVATIVES_PATH,
    MARKET_PATH,
    MARKET_STATE_PATH,
    derivatives_document,
    market_document,
    market_state_document,
)
from barograph.markets.reader import MarketReader
from barograph.signals.reader import SignalsReader
from barograph.status.reader import StatusReader


class Readers(NamedTuple):
    """What each endpoint would answer now, as it goes over the wire.

    They raise what the endpoints raise: `RecordUnavailable` and `UpstreamUnavailable`.
    """

    briefs: Callable[[int], bytes]
    derivatives: Callable[[str], bytes]
    market: Callable[[], bytes]
    market_state: Callable[[], bytes]
    guides: Callable[[], bytes]
    signals: Callable[[], bytes]
    status: Callable[[], bytes]


def free_readers(
    board: Board,
    *,
    markets: MarketReader,
    briefs: BriefsReader,
    signals: SignalsReader,
    guides: Document,
    status: StatusReader,
) -> Readers:
    """The readers that the endpoints use, too."""
    clock = board.clock

    def read_briefs(limit: int) -> bytes:
        return briefs.document(board, limit, clock()).body

    def read_derivatives(symbol: str) -> bytes:
        now = clock()
        ready = _ready(board, DERIVATIVES_PATH, b"symbol=" + symbol.encode(), now)
        return ready or derivatives_document(markets.view(board, now), symbol).body

    def read_market() -> bytes:
        now = clock()
        ready = _ready(board, MARKET_PATH, b"", now)
        return ready or market_document(markets.view(board, now)).body

    def read_market_state() -> bytes:
        now = clock()
        ready = _ready(board, MARKET_STATE_PATH, b"", now)
        return ready or market_state_document(markets.view(board, now)).body

    return Readers(
        briefs=read_briefs,
        derivatives=read_derivatives,
        market=read_market,
        market_state=read_market_state,
        guides=lambda: guides.body,
        signals=lambda: signals.document(board, clock()).body,
        status=lambda: status.status(board, clock()).encode(),
    )


def _ready(board: Board, path: str, query: bytes, now: int) -> bytes | None:
    """What the front door would give, where it has it."""
    document = board.hot.get((path, query))
    return (
        document.body if document is not None and document.since <= now < document.until else None
    )

"""A call of a tool: charge the caller, read, answer; whatever fails is said in a sentence."""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from barograph.board.board import Board
from barograph.briefs.reader import BriefsReader
from barograph.errors import RequestError
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import Scope
from barograph.limits.rate_limits import TOOL_CALLS, RateLimiter, Usage, retry_seconds
from barograph.markets.documents import (
    DERIVATIVES_PATH,
    MARKET_PATH,
    MARKET_STATE_PATH,
    derivatives_document,
    market_document,
    market_state_document,
)
from barograph.markets.reader import MarketReader
from barograph.mcp import tools
from barograph.mcp.tools import Arguments, Tool, check_names, limit_of, symbol_of
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


log = logging.getLogger(__name__)

KEYS_NOT_CHECKED = (
    "keys cannot be checked at the moment: try again in a few seconds, or leave X-API-Key out"
)
INTERNAL = "internal error; try again shortly"


class Outcome(NamedTuple):
    """What a call came to: texts for a model, and the endpoint's body unless it failed."""

    texts: tuple[str, ...]
    body: dict[str, Any] | None = None


class ToolCalls:
    """Answers calls of tools by the services of the free endpoints."""

    def __init__(self, readers: Readers, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._reads: dict[str, Callable[[Arguments], bytes]] = {
            tools.BRIEFS: lambda given: readers.briefs(limit_of(given)),
            tools.DERIVATIVES: lambda given: readers.derivatives(symbol_of(given)),
            tools.MARKET: lambda _: readers.market(),
            tools.MARKET_STATE: lambda _: readers.market_state(),
            tools.GUIDES: lambda _: readers.guides(),
            tools.SIGNALS: lambda _: readers.signals(),
            tools.STATUS: lambda _: readers.status(),
        }

    async def call(self, tool: Tool, given: Arguments, scope: Scope) -> Outcome:
        """Call a tool on behalf of whoever sent the HTTP request of this scope."""
        try:
            return await self._answer(tool, given, scope)
        except RequestError as error:
            return Outcome((error.message,))
        except DatabaseUnavailable:
            return Outcome((KEYS_NOT_CHECKED,))
        except Exception:
            log.exception("unexpected failure")
            return Outcome((INTERNAL,))

    async def _answer(self, tool: Tool, given: Arguments, scope: Scope) -> Outcome:
        await self._limiter.count(TOOL_CALLS, self._limiter.caller(scope))
        check_names(tool, given)
        left: tuple[str, ...] = ()
        if tool.name == tools.SIGNALS:
            left = (_left(await self._limiter.admit(scope)),)
        text, facts = _told(self._reads[tool.name](given))
        return Outcome((text, *left), facts)


@lru_cache(maxsize=32)
def _told(body: bytes) -> tuple[str, dict[str, Any]]:
    """A body as text and as data; most calls get one that was told before, so nobody changes it."""
    return body.decode(), msgspec.json.decode(body)


def _left(usage: Usage) -> str:
    requests = usage.limit.requests
    return (
        f"{usage.remaining:,} of {requests:,} requests for signals are left; the next one comes "
        f"back in {retry_seconds(usage)} seconds."
    )

"""Tool calls: charge the caller, read what the endpoint would return, and answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.briefs.endpoints import BriefsReader
from barograph.errors import RequestError
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse, Scope
from barograph.kit.lists import position_in
from barograph.kit.timestamps import iso_timestamp
from barograph.limits.rate_limits import TOOL_CALLS, RateLimiter, Usage, retry_seconds
from barograph.markets.documents import (
    MARKET_STATE_PATH,
    derivatives_document,
    market_document,
    market_state_document,
)
from barograph.markets.endpoints import CrossAnswer
from barograph.markets.reader import MarketReader
from barograph.markets.view import MarketView
from barograph.mcp import tools
from barograph.mcp.tools import BY_NAME, PERPETUAL, SORTS, Arguments, Tool, query_of
from barograph.signals.endpoints import KEY_NOT_CHECKED
from barograph.signals.reader import SignalsReader
from barograph.status.reader import StatusReader

log = logging.getLogger(__name__)

INTERNAL = "internal error; try again shortly"

Query = dict[str, str]
ToolRead = Callable[[Query, Scope], bytes | Awaitable[bytes]]
ToolReads = Mapping[str, ToolRead]
"""By tool name: the body that the endpoint would return now. They raise what it would raise."""

Endpoint = Callable[[Request], Awaitable[Response]]


def tool_reads(
    board: Board,
    *,
    markets: MarketReader,
    briefs: BriefsReader,
    signals: SignalsReader,
    guides: Document,
    status: StatusReader,
    perpetuals: Callable[[], Document],
    cross: CrossAnswer,
    events: Endpoint,
    newest_events: Callable[[Query], Query],
    series: Endpoint,
) -> ToolReads:
    """The reads of all tools, made of the readers of the free endpoints."""
    clock = board.clock

    def read_market_state(*_: object) -> bytes:
        now = clock()
        document = board.hot.get((MARKET_STATE_PATH, b""))
        if document is None or not document.since <= now < document.until:
            document = market_state_document(markets.view(board, now))
        return document.body

    async def read_cross(query: Query, _: Scope) -> bytes:
        if "coin" in query:
            return cross_result((await cross.one(query["coin"])).body)
        return cross_result((await cross.reader.venues(board)).document().body)

    async def read_carry(query: Query, _: Scope) -> bytes:
        return page_result((await cross.carry(query)).body, BY_NAME[tools.CARRY].output)

    return {
        tools.MARKET_STATE: read_market_state,
        tools.DERIVATIVES: lambda query, _: derivatives_result(
            markets.view(board, clock()), query["symbol"]
        ),
        tools.MARKET: lambda *_: market_result(markets.view(board, clock())),
        tools.PERPETUALS: lambda query, _: perpetuals_result(
            perpetuals().body, query["sort"], int(query["limit"]), PERPETUAL
        ),
        tools.CROSS: read_cross,
        tools.CARRY: read_carry,
        tools.BRIEFS: lambda query, _: briefs.document(board, int(query["limit"]), clock()).body,
        tools.SIGNALS: lambda *_: signals.document(board, clock()).body,
        tools.GUIDES: lambda *_: guides.body,
        tools.STATUS: lambda *_: status.status(board, clock()).encode(),
        tools.EVENTS: _from_endpoint(tools.EVENTS, events, newest_events),
        tools.SERIES: _from_endpoint(tools.SERIES, series),
    }


def _from_endpoint(
    tool: str, endpoint: Endpoint, complete: Callable[[Query], Query] = dict
) -> ToolRead:
    """Call an endpoint as a reader would, so that its checks, cache and limits apply."""

    async def answer(query: Query, scope: Scope) -> bytes:
        query = complete(query)
        inner = {"method": "GET", "path_params": {"measure": query.pop("measure", None)}}
        request = Request({**scope, **inner, "query_string": urlencode(query).encode()})
        response = await endpoint(request)
        assert isinstance(response, DocumentResponse)
        return page_result(response.document.body, BY_NAME[tool].output)

    return answer


class CallOutcome(NamedTuple):
    """Texts for a model, and the endpoint's body unless the call failed."""

    texts: tuple[str, ...]
    body: dict[str, Any] | None = None


class ToolCalls:
    """Answers tool calls."""

    def __init__(self, reads: ToolReads, limiter: RateLimiter) -> None:
        self._reads = reads
        self._limiter = limiter

    async def call(self, tool: Tool, given: Arguments, scope: Scope) -> CallOutcome:
        """Call a tool for the sender of this HTTP request."""
        try:
            return await self._answer(tool, given, scope)
        except RequestError as error:
            return CallOutcome((error.message,))
        except DatabaseUnavailable:
            return CallOutcome((KEY_NOT_CHECKED,))
        except Exception:
            log.exception("unexpected failure")
            return CallOutcome((INTERNAL,))

    async def _answer(self, tool: Tool, given: Arguments, scope: Scope) -> CallOutcome:
        await self._limiter.count(TOOL_CALLS, self._limiter.caller(scope))
        query = query_of(tool, given)
        left: tuple[str, ...] = ()
        if tool.name == tools.SIGNALS:
            left = (_left(await self._limiter.admit(scope)),)
        found = self._reads[tool.name](query, scope)
        text, body = _decoded(found if isinstance(found, bytes) else await found)
        return CallOutcome((text, *left), body)


@lru_cache(maxsize=32)
def _decoded(body: bytes) -> tuple[str, dict[str, Any]]:
    """A body as text and as data, cached; so do not change the data."""
    return body.decode(), msgspec.json.decode(body)


def _left(usage: Usage) -> str:
    return (
        f"{usage.remaining:,} of {usage.limit.requests:,} signals requests are left; one "
        f"more is available in {retry_seconds(usage)} seconds."
    )


def derivatives_result(view: MarketView, symbol: str) -> bytes:
    """The record of one perpetual."""
    body = msgspec.json.decode(derivatives_document(view, symbol).body)
    return msgspec.json.encode(
        {**body, **_stated(view, symbol), "as_of": iso_timestamp(view.perpetuals.as_of)}
    )


def market_result(view: MarketView) -> bytes:
    """The snapshot of BTC, ETH and SOL.

    Raises:
        UpstreamUnavailable: none of the three is known.
    """
    body = msgspec.json.decode(market_document(view).body)
    assets = [{**asset, **_stated(view, asset["symbol"])} for asset in body["assets"]]
    return msgspec.json.encode(
        {**body, "assets": assets, "as_of": iso_timestamp(view.perpetuals.as_of)}
    )


def perpetuals_result(body: bytes, sort: str, limit: int, members: Iterable[str]) -> bytes:
    """These members of the perpetuals with the largest values of either sign."""
    listed = msgspec.json.decode(body)
    largest = sorted(listed["perpetuals"], key=lambda each: -abs(each[SORTS[sort]] or 0.0))
    rows = [{name: each[name] for name in members} for each in largest[:limit]]
    head = {name: listed[name] for name in ("as_of", "source", "notice")}
    return msgspec.json.encode({**head, "perpetuals": rows})


HEAD_MEMBERS = ("as_of", "source", "notice")
CROSS_MEMBERS = (
    *(*HEAD_MEMBERS, "coin", "totalOpenInterestUsd", "openInterestMissing"),
    *("openInterestWithMissingUsd", "openInterestChange24h", "totalVolume24hUsd", "volumeMissing"),
    *("weightedFundingRatePct8h", "fundingMissing", "settledTo", "fundingSpread"),
    *("priceRange", "liquidations24hAtLeastUsd"),
)
VENUE_MEMBERS = (
    *("venue", "state", "reason", "role", "inUse", "ageSeconds", "disputed", "priceKind", "quote"),
    *("longAccounts", "liquidations", "contracts", "contract", "pricePerCoin", "fundingRatePct8h"),
    *("fundingIntervalHours", "settledPct8h", "settledPct24h", "settledPct7d", "settledPct30d"),
    *("settledYearlyPct30d", "openInterestUsd", "sharePct", "volume24hUsd"),
    "liquidations24h",
)


def cross_result(body: bytes) -> bytes:
    """What a model needs of a coin at all venues, or of the venues."""
    page = msgspec.json.decode(body)
    members = CROSS_MEMBERS if "coin" in page else HEAD_MEMBERS
    head = {name: page[name] for name in members}
    rows = [
        {name: venue[name] for name in VENUE_MEMBERS if name in venue} for venue in page["venues"]
    ]
    return msgspec.json.encode({**head, "venues": rows})


def page_result(body: bytes, members: Iterable[str]) -> bytes:
    """These members of a page of a list."""
    page = msgspec.json.decode(body)
    if "points" in page:  # a model can't open the address of the next page
        page["next_from"] = page["next"] and iso_timestamp(position_in(page["next"], int))
    return msgspec.json.encode({name: page[name] for name in members})


def _stated(view: MarketView, symbol: str) -> dict[str, Any]:
    """The funding rate as the venue states it, and the hours that it is for."""
    perpetual = view.by_name.get(symbol)
    return {
        "statedFundingRatePct": None if perpetual is None else perpetual.funding_rate_pct,
        "fundingIntervalHours": None if perpetual is None else perpetual.funding_interval_hours,
    }

"""The pages of markets: every live perpetual, and each by itself."""

import asyncio

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.badges.documents import BADGE_FOLDER
from barograph.errors import UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.markets.documents import DERIVATIVES_PATH
from barograph.markets.samples import DAYS, DEFAULT_DAYS, MEASURES
from barograph.markets.symbols import DEFAULT, MAX_LENGTH, normalized
from barograph.markets.view import PERPETUALS, MarketView
from barograph.site.frame.paths import MARKETS_FOLDER, MARKETS_PATH
from barograph.site.frame.responses import GUARD, KEEP, Page, PageRouter, accepts, private_page
from barograph.site.frame.site import LOOK_AGAIN_MS, Site
from barograph.site.market_pages import (
    COLUMNS,
    LONGEST_SEARCH,
    NUMBERS,
    Choice,
    Found,
    find,
    listing,
    market,
    table_rows,
)
from barograph.site.series import ChartReader
from barograph.site.series_charts import Chart, chosen_days
from barograph.site.series_documents import days_query

LONGEST_ECHO = 40
MOVED_FIELDS = [(b"cache-control", KEEP), *GUARD]
"""Not for ever: which contract an asset names can change."""


def market_page_routes(site: Site, charts: ChartReader) -> PageRouter:
    """The routes of `/markets` and of the page of each perpetual."""
    router = PageRouter()

    @router.get(MARKETS_PATH)
    async def read_markets(request: Request) -> Response:
        choice = Choice.of(request.query_params)
        query = None if choice.search else choice.query.encode()
        return await site.show(request, lambda now: _markets(site, choice, now), query=query)

    @router.get(f"{MARKETS_FOLDER}{{symbol}}")
    async def read_market(request: Request, symbol: str) -> Response:
        contracts, last = site.markets.contracts(site.board), site.board.latest(PERPETUALS)
        if contracts is None or last is None:
            return site.unavailable(request)
        found = find(contracts, symbol)
        if found is None:
            return await _not_known(site, request, symbol, last.source)
        days = chosen_days(request.query_params.get("days"))
        if symbol != found.name:
            return _moved(site, found.name, days)
        return await site.show(
            request, lambda now: _market(site, charts, found, days, now), query=days_query(days)
        )

    return router


def _view(site: Site, now: int) -> MarketView | None:
    try:
        return site.markets.view(site.board, now)
    except UpstreamUnavailable:
        return None


async def _markets(site: Site, choice: Choice, now: int) -> Page:
    view = _view(site, now)
    last = site.board.latest(PERPETUALS)
    found = None if view is None else listing(view)
    await asyncio.sleep(0)  # several hundred rows take a while: let hot reads pass in between
    rows = [] if found is None else found.chosen(choice)
    table = "" if found is None else table_rows(rows, site.pages.root, found.as_of)
    await asyncio.sleep(0)
    body = site.pages.fill(
        "markets.html",
        here=MARKETS_PATH,
        listing=found,
        last=last,
        choice=choice,
        columns=COLUMNS,
        numbers=NUMBERS,
        usual=Choice(),
        longest=LONGEST_SEARCH,
        shown=len(rows),
        api_path=_api_path(DEFAULT),
        rows=table,
    )
    await asyncio.sleep(0)
    return Page(body, since=now, until=now + LOOK_AGAIN_MS if found is None else found.until)


async def _market(site: Site, charts: ChartReader, found: Found, days: int, now: int) -> Page:
    view = _view(site, now)
    shown = None if view is None else market(view, found)
    try:
        drawn = await _drawn(charts, found, days)
    except DatabaseUnavailable:
        drawn = None
    body = site.pages.fill(
        "market.html",
        here=MARKETS_PATH,
        found=found,
        market=shown,
        last=site.board.latest(PERPETUALS),
        charts=drawn,
        days=days,
        all_days=DAYS,
        badge_path=f"{BADGE_FOLDER}funding/{found.name}.svg",
        api_path=_api_path(found.name),
    )
    is_whole = shown is not None and drawn is not None
    until = now + LOOK_AGAIN_MS if shown is None else shown.until
    return Page(body, since=now, until=until if is_whole else min(until, now + LOOK_AGAIN_MS))


async def _drawn(charts: ChartReader, found: Found, days: int) -> list[Chart]:
    contract = found.perpetual.contract
    return [await charts.measure(contract, found.name, each, days) for each in MEASURES]


def _api_path(symbol: str) -> str:
    return f"{DERIVATIVES_PATH}?symbol={symbol}"


def _moved(site: Site, name: str, days: int) -> Response:
    query = "" if days == DEFAULT_DAYS else f"?days={days}"
    response = Response(status_code=308)
    to = f"{site.pages.root}{MARKETS_FOLDER}{name}{query}"
    response.raw_headers = [(b"location", to.encode()), (b"content-length", b"0"), *MOVED_FIELDS]
    return response


async def _not_known(site: Site, request: Request, symbol: str, source: str) -> Response:
    """There is no such perpetual, in words for people and as ever for programs."""
    if not accepts(request.scope["headers"], b"text/html"):
        raise HTTPException(404)

    async def write() -> bytes:
        return site.pages.fill(
            "market_not_known.html",
            here=MARKETS_PATH,
            symbol=symbol if len(symbol) <= LONGEST_ECHO else f"{symbol[:LONGEST_ECHO]}…",
            source=source,
            is_symbol=normalized(symbol) is not None,
            longest=MAX_LENGTH,
        )

    body, fields = await site.renders.once(request.scope, (MARKETS_PATH, symbol), write)
    return private_page(404, body, *fields)

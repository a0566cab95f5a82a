"""`/cross`: every coin at all venues, and a page for each; `/venues`: the venues."""

import asyncio
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import InvalidRequest, NotFound, UpstreamUnavailable
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_documents import CROSS_PATH, VENUES_PATH, venue_entries
from barograph.site.cross_pages import (
    COLUMNS,
    NUMBERS,
    CrossQuery,
    VenueCard,
    coin_facts,
    funding_text,
    interest_text,
    select_rows,
    spread_text,
    spread_venues,
    table_rows,
    titles_of,
)
from barograph.site.market_pages import exact_rate
from barograph.site.markets import redirect, unknown_name
from barograph.site.paths import CROSS_FOLDER, CROSS_PAGE, VENUES_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.status_pages import detail_html


def cross_page_routes(site: Site) -> PageRouter:
    """The routes of the comparison, of every coin and of the venues."""
    router = PageRouter()

    @router.get(CROSS_PAGE)
    async def read_cross(request: Request) -> Response:
        query = CrossQuery.parse(request.query_params)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _cross(site, query, now), query=cache_key)

    @router.get(f"{CROSS_FOLDER}{{coin}}")
    async def read_coin(request: Request, coin: str) -> Response:
        _market(site)  # also finds the names of the coins
        try:
            asset = site.cross.asset(coin)
        except (InvalidRequest, NotFound):
            template = "cross_not_found.html"
            return await unknown_name(site, request, template, coin, here=CROSS_PAGE)
        if coin != asset:
            return redirect(f"{site.templates.root}{CROSS_FOLDER}{quote(asset)}")
        return await site.respond(request, lambda now: _coin(site, asset, now))

    @router.get(VENUES_PAGE)
    async def read_venues(request: Request) -> Response:
        return await site.respond(request, lambda now: _venues(site, now))

    return router


def _market(site: Site) -> CrossMarket | None:
    try:
        return site.cross.market(site.board)
    except UpstreamUnavailable:
        return None


async def _cross(site: Site, query: CrossQuery, now: int) -> Page:
    market = _market(site)
    await asyncio.sleep(0)  # several hundred rows take a while: let cached reads go in between
    rows = [] if market is None else select_rows(market, query)
    body_rows = table_rows(rows, site.templates.root)
    await asyncio.sleep(0)
    body = site.templates.render(
        "cross.html",
        here=CROSS_PAGE,
        address=CROSS_PAGE,
        market=market,
        query=query,
        columns=COLUMNS,
        numbers=NUMBERS,
        shown=len(rows),
        rows=body_rows,
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=_until(market, now))


async def _coin(site: Site, asset: str, now: int) -> Page:
    market = _market(site)
    coin = None if market is None else market.coins.get(asset)
    facts = None if market is None or coin is None else coin_facts(market, coin)
    body = site.templates.render(
        "cross_coin.html",
        here=CROSS_PAGE,
        asset=asset,
        facts=facts,
        exact_rate=exact_rate,
        detail_html=detail_html,
        now=now,
        interest_text=interest_text,
        funding_text=funding_text,
        spread_text=spread_text,
        spread_venues=spread_venues,
        titles_of=titles_of,
        api_path=f"{CROSS_PATH}/{asset}",
    )
    return Page(body, since=now, until=_until(market, now))


async def _venues(site: Site, now: int) -> Page:
    reader, board = site.cross, site.board
    facts = reader.facts(board)
    entries = venue_entries(facts, reader.roles(board), reader.limits, now)
    cards = [VenueCard(*each) for each in zip(entries, facts.values(), strict=True)]
    body = site.templates.render(
        "venues.html",
        here=CROSS_PAGE,
        cards=cards,
        detail_html=detail_html,
        now=now,
        api_path=VENUES_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS)


def _until(market: CrossMarket | None, now: int) -> int:
    return now + INCOMPLETE_PAGE_MS if market is None else market.until

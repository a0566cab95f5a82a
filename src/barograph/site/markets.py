"""`/markets`: the table of coins, and that of the perpetuals of each venue."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import UpstreamUnavailable
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.site.coin_table import Sources, coin_rows, coin_table, usual_venue
from barograph.site.market_facts import left_out_text
from barograph.site.market_table import (
    FILTERS,
    NUMBERS,
    MarketsQuery,
    MarketTable,
    market_rows,
    market_table,
    ranks_of,
    table_rows,
)
from barograph.site.paths import MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none
from barograph.venues.registry import VENUES


def market_page_routes(router: PageRouter, site: Site) -> None:
    """The route of the table."""

    @router.get(MARKETS_PATH)
    async def read_markets(request: Request) -> Response:
        query = MarketsQuery.parse(request.query_params)
        if query.venue and query.venue not in site.cross.facts(site.board):
            query = query.limited(venue="")
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _markets(site, query, now), query=cache_key)


async def _table(site: Site, venue: str, now: int) -> MarketTable | None:
    """The perpetuals of a venue; None without a fresh reading."""
    try:
        view = site.markets.view_of(site.board, venue, now)
    except UpstreamUnavailable:
        return None
    weeks = await or_none(site.series.week(venue))
    week_ago = await or_none(site.series.week_ago(view.perpetuals))
    contracts, place = view.perpetuals.contracts, venue if site.has_venues else ""
    rows = await asyncio.to_thread(market_rows, view, contracts, weeks, week_ago, place)
    return market_table(view, rows, has_weeks=weeks is not None and week_ago is not None)


async def _coin_table(site: Site) -> MarketTable | None:
    """All coins; None without a fresh reading of any venue."""
    market = await site.compared()
    if market is None:
        return None
    weeks, week_ago = {}, {}
    for reading in market.fresh:
        weeks[reading.venue] = await or_none(site.series.week(reading.venue))
        week_ago[reading.venue] = await or_none(site.series.week_ago(reading))
    usual, known = usual_venue(market), Sources(weeks, week_ago)
    rows = await asyncio.to_thread(coin_rows, market.coins.values(), known, usual)
    return coin_table(market, rows, usual, is_complete=None not in weeks.values())


async def _markets(site: Site, query: MarketsQuery, now: int) -> Page:
    venues = list(site.cross.facts(site.board))
    in_use = site.cross.roles(site.board).in_use
    if len(venues) == 1:  # there is nothing to add up
        query = query.limited(venue="")
    venue = query.venue if len(venues) > 1 else in_use
    table = await (_table(site, venue, now) if venue else _coin_table(site))
    last = site.markets.reading(site.board, venue or None)
    rows = [] if table is None else table.select(query)
    ranks = ranks_of([] if table is None else table.rows)
    body = site.templates.render(
        "markets.html",
        here=MARKETS_PATH,
        table=table,
        last=last,
        left_out="" if last is None or not venue else left_out_text(last),
        query=query,
        venue=venue,
        venues=venues,
        titles=VENUES,
        filters=FILTERS,
        unknown=0 if table is None else table.unknown(query),
        switched=site.switched(now) if venue == in_use else "",
        numbers=NUMBERS,
        shown=len(rows),
        nouns="perpetuals" if venue else "coins",
        api_path=PERPETUALS_PATH if venue else CROSS_PATH,
        api_query="" if venue in {"", in_use} else f"?venue={venue}",
        rows=""
        if table is None
        else await asyncio.to_thread(table_rows, table, rows, site.templates.root, ranks),
    )
    return Page(body, since=now, until=_until(table, now))


def _until(table: MarketTable | None, now: int) -> int:
    soon = now + INCOMPLETE_PAGE_MS
    if table is None:
        return soon
    return table.until if table.is_complete else min(table.until, soon)

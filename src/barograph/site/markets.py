"""`/markets`: the table of perpetuals, and a page for each."""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.errors import UpstreamUnavailable
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.documents import DERIVATIVES_PATH
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.markets.samples import CHARTED, DAYS
from barograph.markets.symbols import MAX_LENGTH, normalized
from barograph.markets.view import PERPETUALS
from barograph.site.chart_reader import ChartReader
from barograph.site.coin_table import Sources, coin_rows, coin_table, usual_venue
from barograph.site.cross import BY_VENUE, coin_facts
from barograph.site.market_facts import FoundPerpetual, find_perpetual, left_out_text, market_facts
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
from barograph.site.paths import MARKETS_FOLDER, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import Chart, chosen_days, days_query
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none, redirect, unknown_name
from barograph.venues.records import ContractName
from barograph.venues.registry import VENUES


def market_page_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The routes of the table and of every perpetual."""

    @router.get(MARKETS_PATH)
    async def read_markets(request: Request) -> Response:
        query = MarketsQuery.parse(request.query_params)
        if query.venue and query.venue not in site.cross.facts(site.board):
            query = query.limited(venue="")
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _markets(site, query, now), query=cache_key)

    @router.get(f"{MARKETS_FOLDER}{{symbol}}")
    async def read_market(request: Request, symbol: str) -> Response:
        contracts, last = site.markets.contracts(site.board), site.board.latest(PERPETUALS)
        if contracts is None or last is None:
            return site.unavailable(request)
        found = find_perpetual(contracts, symbol)
        if found is None:
            return await unknown_name(
                *(site, request, "market_not_found.html", symbol),
                here=MARKETS_PATH,
                venue=VENUES[last.venue].title,
                left_out=left_out_text(last),
                is_symbol=normalized(symbol) is not None,
                max_symbol=MAX_LENGTH,
            )
        days = chosen_days(request.query_params.get("days"))
        query = days_query(days)
        if symbol != found.symbol:
            end = f"?{query.decode()}" if query else ""
            return redirect(f"{site.templates.root}{MARKETS_FOLDER}{found.symbol}{end}")
        return await site.respond(
            request, lambda now: _market(site, charts, found, days, now), query=query
        )


async def _table(site: Site, venue: str, now: int) -> MarketTable | None:
    """The perpetuals of a venue; None without a fresh reading."""
    try:
        view = site.markets.view_of(site.board, venue, now)
    except UpstreamUnavailable:
        return None
    in_use = site.cross.roles(site.board).in_use
    weeks = await or_none(site.series.week(venue))
    week_ago = await or_none(site.series.week_ago(view.perpetuals))
    contracts, is_in_use = view.perpetuals.contracts, venue == in_use
    write = partial(market_rows, view, contracts, weeks, week_ago, is_in_use=is_in_use)
    rows = await asyncio.to_thread(write)
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
    known = Sources(site.coin_page, weeks, week_ago)
    usual = usual_venue(market)
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
        in_use=in_use,
        titles=VENUES,
        filters=FILTERS,
        unknown=0 if table is None else table.unknown(query),
        switched=site.switched,
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


async def _market(
    site: Site, charts: ChartReader, found: FoundPerpetual, days: int, now: int
) -> Page:
    view, last = site.view(now), site.board.latest(PERPETUALS)
    listed = (site.markets.contracts(site.board) or {}).get(found.symbol)
    if listed is not None:  # the page may have waited for its turn while the venue changed
        found = found._replace(perpetual=listed)
    market = None
    if view is not None and listed is not None:
        week_ago = await or_none(site.series.week_ago(view.perpetuals))
        market = market_facts(view, found, week_ago)
    compared = await site.compared() if site.has_venues else None
    coin = None if compared is None else compared.coins.get(found.perpetual.asset)
    drawn = None if last is None else await or_none(_charts(charts, last.venue, found, days))
    body = site.templates.render(
        "market.html",
        here=MARKETS_PATH,
        found=found,
        market=market,
        **BY_VENUE,
        facts=None if compared is None or coin is None else coin_facts(compared, coin),
        venue="" if last is None else VENUES[last.venue].title,
        last=last,
        charts=drawn,
        backfill=site.backfill(now),
        days=days,
        all_days=DAYS,
        badge_path=f"{BADGE_FOLDER}funding/{found.symbol}.svg",
        api_path=f"{DERIVATIVES_PATH}?symbol={found.symbol}",
        full_path=f"{PERPETUALS_PATH}/{found.symbol}",
    )
    until = now + INCOMPLETE_PAGE_MS
    if market is not None:
        until = market.until if drawn is not None else min(market.until, until)
    if compared is not None:
        until = min(until, compared.until)
    return Page(body, since=now, until=until)


async def _charts(charts: ChartReader, venue: str, found: FoundPerpetual, days: int) -> list[Chart]:
    name = ContractName(venue, found.perpetual.contract)
    has_accounts = VENUES[venue].has_long_accounts
    measures = [each for each in CHARTED if has_accounts or each != "long-accounts"]
    return [await charts.measure(name, found.symbol, measure, days) for measure in measures]

"""The whole market at once: `/heatmap`, `/funding` across venues, and `/liquidations`."""

import asyncio

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import UpstreamUnavailable
from barograph.kit.timestamps import MINUTE
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.liquidation_endpoints import LIQUIDATIONS_PATH
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.markets.samples import LiquidationDays
from barograph.markets.symbols import MAX_LENGTH, is_normalized
from barograph.markets.venues import VENUES
from barograph.markets.view import PERPETUALS, is_fresh
from barograph.site.chart_reader import ChartReader
from barograph.site.charts.columns import column_chart
from barograph.site.cross_pages import NUMBERS, CrossQuery, select_rows
from barograph.site.funding_pages import funding_columns, funding_rows
from barograph.site.heatmap_pages import COLOURS, SIZES, By, draw_map, fit, heatmap, legend
from barograph.site.liquidation_pages import PERIODS, DayFacts, in_use_text
from barograph.site.paths import FUNDING_PAGE, HEATMAP_PAGE, LIQUIDATIONS_PAGE, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import Chart
from barograph.site.site import INCOMPLETE_PAGE_MS, Site

ROWS_AT_ONCE = 200
"""How many rows are written before cached reads may go in between."""


def overview_routes(site: Site, charts: ChartReader) -> PageRouter:
    """The routes of the three pages."""
    router = PageRouter()

    @router.get(HEATMAP_PAGE)
    async def read_heatmap(request: Request) -> Response:
        by: By = "change" if request.query_params.get("by") == "change" else "funding"
        query = b"" if by == "funding" else f"by={by}".encode()
        return await site.respond(request, lambda now: _heatmap(site, by, now), query=query)

    @router.get(FUNDING_PAGE)
    async def read_funding(request: Request) -> Response:
        query = CrossQuery.parse(request.query_params, VENUES)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _funding(site, query, now), query=cache_key)

    @router.get(LIQUIDATIONS_PAGE)
    async def read_liquidations(request: Request) -> Response:
        day = request.query_params.get("day") or "latest"
        if day not in PERIODS:  # a dated link must not show other data
            raise HTTPException(404)
        query = b"" if day == "latest" else f"day={day}".encode()
        return await site.respond(
            request, lambda now: _liquidations(site, charts, day, now), query=query
        )

    return router


async def _heatmap(site: Site, by: By, now: int) -> Page:
    view = site.view(now)
    found = None if view is None else heatmap(view)
    await asyncio.sleep(0)  # several hundred contracts take a while: let cached reads go in between
    layouts = [] if found is None else [fit(found.cells, size) for size in SIZES]
    await asyncio.sleep(0)
    body = site.templates.render(
        "heatmap.html",
        here=MARKETS_PATH,
        map=found,
        last=site.board.latest(PERPETUALS),
        by=by,
        colours=COLOURS,
        legend=legend(by),
        drawings=[draw_map(each, by, site.templates.root) for each in layouts],
        api_path=PERPETUALS_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if view is None else view.until)


async def _funding(site: Site, query: CrossQuery, now: int) -> Page:
    try:
        market = site.cross.market(site.board)
    except UpstreamUnavailable:
        market = None
    await asyncio.sleep(0)
    venues = list(site.cross.facts(site.board) if market is None else market.facts)
    rows = [] if market is None else select_rows(market, query, venues)
    written: list[Markup] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        written.append(funding_rows(part, venues, site.templates.root))
        await asyncio.sleep(0)
    body = site.templates.render(
        "funding.html",
        here=MARKETS_PATH,
        address=FUNDING_PAGE,
        market=market,
        venues=[VENUES[each].title for each in venues],
        query=query,
        columns=funding_columns(venues),
        numbers=(*NUMBERS, *venues),
        default=CrossQuery(),
        max_search=MAX_LENGTH,
        shown=len(rows),
        rows=Markup("\n").join(written),
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)


async def _liquidations(site: Site, charts: ChartReader, day: str, now: int) -> Page:
    venue = VENUES[site.series.venue]
    if venue.liquidations == "none":
        body = site.templates.render(
            "liquidations.html", here=MARKETS_PATH, venue=venue, api_path=LIQUIDATIONS_PATH
        )
        return Page(body, since=now, until=now + MINUTE)
    found = await site.series.liquidation_days()
    reading, in_use = site.markets.reading(site.board, venue.name), site.board.latest(PERPETUALS)
    heard_at, listed = _heard_at(site, found), site.markets.contracts(site.board) or {}
    bound = _bound(site, heard_at, now)
    chosen = found.yesterday if day == "yesterday" else found.latest
    facts = DayFacts(day, chosen, venue, [] if reading is None else reading.unwatched)
    if day == "latest":
        chart: Chart | Markup = (await charts.liquidations(1))._replace(
            page=f"{LIQUIDATIONS_PAGE}#liquidations"
        )
    else:
        chart = column_chart(found.hours, prefix="chart-yesterday", name="Liquidations yesterday")
    body = site.templates.render(
        "liquidations.html",
        here=MARKETS_PATH,
        venue=venue,
        periods=PERIODS,
        chosen=facts,
        chart=chart,
        min_coverage_pct=site.series.min_watched_pct,
        symbols={symbol for symbol in listed if is_normalized(symbol)},
        bound=bound,
        heard_at=heard_at,
        other="" if in_use is None else in_use_text(venue, VENUES[in_use.venue]),
        api_path=LIQUIDATIONS_PATH,
    )
    minute = now // MINUTE * MINUTE + MINUTE  # then the record is read again
    return Page(body, since=now, until=minute if bound is None else min(minute, bound))


def _heard_at(site: Site, found: LiquidationDays) -> int | None:
    """Up to when we watched: the record is read only once per minute, the board is newer."""
    counted = site.markets.liquidations(site.board, site.series.venue)
    times = (found.heard_at, None if counted is None else counted.watched_until)
    return max((each for each in times if each is not None), default=None)


def _bound(site: Site, heard_at: int | None, now: int) -> int | None:
    """When the last 24 hours stop being current; None if they are not."""
    limit = site.cross.limits.liquidations
    return None if heard_at is None or not is_fresh(heard_at, limit, now) else heard_at + limit

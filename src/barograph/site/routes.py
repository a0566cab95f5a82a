"""All routes of the site: pages, downloads, static files, the sitemap and slash redirects."""

from collections.abc import Mapping
from typing import NamedTuple
from xml.sax.saxutils import escape

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Router

from barograph.alerts.endpoints import Alerts
from barograph.briefs.store import newest_listed
from barograph.discovery.endpoints import Descriptions
from barograph.guides.catalog import Catalog
from barograph.keys.api_keys import ApiKeys
from barograph.keys.registration import Registrations
from barograph.kit.documents import CORS
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.limits.rate_limits import RateLimiter
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.markets.samples import STEPS
from barograph.markets.view import PERPETUALS
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS
from barograph.site.accuracy import accuracy_routes
from barograph.site.alerts import AlertPages
from barograph.site.briefs import brief_page_routes, brief_paths
from barograph.site.chart_images import chart_image_routes
from barograph.site.chart_reader import ChartReader, asked_series, listed_contract
from barograph.site.coin_page import coin_page_routes
from barograph.site.developers.endpoints import developers_routes
from barograph.site.developers.swagger import docs_routes
from barograph.site.feeds import feed_file_routes
from barograph.site.funding import funding_routes
from barograph.site.guides import guide_page_routes, guide_paths
from barograph.site.heatmap import heatmap_routes
from barograph.site.home import home_routes
from barograph.site.keys import KeyPages
from barograph.site.liquidations import liquidation_routes
from barograph.site.markets import market_page_routes
from barograph.site.open_interest import open_interest_routes
from barograph.site.paths import (
    BRIEFS_FOLDER,
    CHART_FOLDER,
    CROSS_FOLDER,
    DATA_FOLDER,
    GUIDES_FOLDER,
    HOME_PATH,
    MARKETS_CSV,
    MARKETS_FOLDER,
    MARKETS_PATH,
    MOVED,
    PAGES,
    RECORD_FOLDER,
    REFERENCE_FOLDER,
    SIGNALS_FOLDER,
    SIGNALS_PAGE,
    STATIC_FOLDER,
    coin_page,
)
from barograph.site.pricing import pricing_routes
from barograph.site.record import Recorded, record_routes
from barograph.site.responses import CACHE_ONE_HOUR, CACHE_ONE_MINUTE, Page, PageRouter
from barograph.site.search import search_routes
from barograph.site.series_charts import LIQUIDATIONS, data_path, days_from_query, first_day
from barograph.site.signals import signal_page_routes
from barograph.site.site import Site
from barograph.site.status import status_page_routes
from barograph.site.templating import Terms
from barograph.site.venues import venues_routes
from barograph.venues.registry import source_of

ICON_PATH = "/favicon.ico"
SITEMAP_PATH = "/sitemap.xml"

PAGE_PATHS = (*PAGES, *MOVED, MARKETS_CSV, ICON_PATH, SITEMAP_PATH)
PAGE_FOLDERS = (
    BRIEFS_FOLDER,
    CHART_FOLDER,
    CROSS_FOLDER,
    DATA_FOLDER,
    REFERENCE_FOLDER,
    GUIDES_FOLDER,
    MARKETS_FOLDER,
    RECORD_FOLDER,
    SIGNALS_FOLDER,
    STATIC_FOLDER,
)
"""Together with `PAGE_PATHS`: what anyone may read."""

BRIEFS_IN_SITEMAP = 5_000
"""Older briefs are linked only from page to page."""

_XML = b"application/xml; charset=utf-8"


class SiteParts(NamedTuple):
    """What single pages need beyond the data that all of them share."""

    catalog: Catalog
    terms: Terms
    registrations: Registrations | None
    limiter: RateLimiter
    described: Descriptions
    tools: Mapping[str, str]
    """The descriptions of the MCP tools by name."""

    recorded: Recorded
    source: str
    bybit_source: str
    alerts: Alerts
    keys: ApiKeys


def page_routes(site: Site, parts: SiteParts) -> list[Router]:
    """The routes of the whole site."""
    router, catalog, terms = PageRouter(), parts.catalog, parts.terms
    charts = ChartReader(site.series, site.templates.root, site.board.clock, parts.bybit_source)
    home_routes(router, site, charts, parts.recorded.log)
    market_page_routes(router, site)
    coin_page_routes(router, site, charts)
    venues_routes(router, site)
    heatmap_routes(router, site)
    funding_routes(router, site)
    open_interest_routes(router, site)
    liquidation_routes(router, site, charts)
    signal_page_routes(router, site)
    # Before the briefs, whose path template matches too.
    feed_file_routes(router, site, parts.source)
    brief_page_routes(router, site, charts)
    guide_page_routes(router, site, catalog)
    accuracy_routes(router, site)
    developers_routes(
        router,
        site,
        parts.described,
        tools=parts.tools,
        can_register=parts.registrations is not None,
        terms=terms,
    )
    docs_routes(router, site)
    pricing_routes(router, site, terms)
    status_page_routes(router, site)
    search_routes(router, site)
    _moved_routes(router, site)
    chart_image_routes(
        router, site, charts, source_of(site.series.liquidation_venue, parts.bybit_source)
    )
    keys = KeyPages(site.templates, parts.registrations, parts.limiter, site.board.clock)
    keys.add_routes(router)
    can_register = parts.registrations is not None
    AlertPages(site, parts.alerts, parts.keys, can_register=can_register).add_routes(router)
    _static_routes(router, site)
    _sitemap_routes(router, site, catalog)
    _slash_routes(router, site.templates.root)
    return [record_routes(site, parts.recorded), router]


def _static_routes(router: PageRouter, site: Site) -> None:

    def respond(request: Request, name: str, version: str | None) -> Response:
        file = site.templates.files.get(name)
        if file is None:
            raise HTTPException(404)
        query = file.canonical_query(version)
        return site.respond_unchanging(request, file.pages[query], query=query)

    @router.get(f"{STATIC_FOLDER}{{name}}")
    async def read_static(request: Request, name: str) -> Response:
        return respond(request, name, request.query_params.get("v"))

    @router.get(ICON_PATH)
    async def read_icon(request: Request) -> Response:
        return respond(request, ICON_PATH.removeprefix("/"), None)


def _sitemap_routes(router: PageRouter, site: Site, catalog: Catalog) -> None:

    async def render(_: int) -> Page:
        text = sitemap_text(site.templates.base_url, await _known_paths(site, catalog))
        return Page(text, content_type=_XML, cache_control=CACHE_ONE_HOUR)

    @router.get(SITEMAP_PATH)
    async def read_sitemap(request: Request) -> Response:
        return await site.respond(request, render)


def sitemap_text(base_url: str, paths: Mapping[str, int | None]) -> bytes:
    """A sitemap as sitemaps.org specifies it, of paths with the time they last changed."""
    urls = "".join(
        f"<url><loc>{escape(base_url + path)}</loc>{_lastmod(at)}</url>\n"
        for path, at in paths.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{urls}</urlset>\n"
    ).encode()


def _lastmod(at: int | None) -> str:
    return "" if at is None else f"<lastmod>{iso_timestamp(at)}</lastmod>"


async def _known_paths(site: Site, catalog: Catalog) -> dict[str, int | None]:
    """Every page for crawlers, with the time it last changed; None if unknown."""
    briefs = await newest_listed(site.database, BRIEFS_IN_SITEMAP)
    readings = (known.reading for known in site.cross.facts(site.board).values())
    coins = {each.asset for reading in readings if reading for each in reading.contracts}
    market, signals = site.board.latest(PERPETUALS), site.board.latest(SIGNALS)
    market_at = None if market is None else market.as_of
    signals_at = None if signals is None else signals.as_of
    return {
        **dict.fromkeys((*PAGES, *guide_paths(catalog))),
        **dict.fromkeys((HOME_PATH, MARKETS_PATH), market_at),
        **dict.fromkeys(filter(None, map(coin_page, sorted(coins))), market_at),
        **dict.fromkeys(
            (SIGNALS_PAGE, *(SIGNALS_FOLDER + method.key for method in METHODS)), signals_at
        ),
        **brief_paths(briefs),
    }


def _moved_routes(router: PageRouter, site: Site) -> None:
    """Redirect former addresses of downloads to the API, which has the same data."""

    def redirect(path: str) -> Response:
        response = RedirectResponse(site.templates.root + path, 308)
        response.raw_headers += [(b"cache-control", CACHE_ONE_MINUTE), *CORS]
        return response

    def series(request: Request, measure: str, days: int, **of: str) -> Response:
        form = request.scope["path"].rpartition(".")[2]
        of["from"] = first_day(site.board.clock() - days * DAY)
        return redirect(data_path(measure, form, STEPS[days], **of))

    @router.get(MARKETS_CSV)
    async def read_markets(_: Request) -> Response:
        return redirect(f"{PERPETUALS_PATH}.csv")

    @router.get(f"{DATA_FOLDER}{LIQUIDATIONS}.json")
    @router.get(f"{DATA_FOLDER}{LIQUIDATIONS}.csv")
    async def read_liquidations(request: Request) -> Response:
        days = days_from_query(request.query_params)
        return series(request, LIQUIDATIONS, days, venue=site.series.liquidation_venue)

    @router.get(f"{DATA_FOLDER}{{symbol}}/{{measure}}.json")
    @router.get(f"{DATA_FOLDER}{{symbol}}/{{measure}}.csv")
    async def read_measure(request: Request, **_: str) -> Response:
        asked, measure, days = asked_series(request)
        name, symbol, _source = listed_contract(site, asked)
        return series(request, measure, days, venue=name.venue, symbol=symbol)


def _slash_routes(router: PageRouter, root: str) -> None:
    """Redirect page addresses with a trailing slash to those without."""

    async def redirect(request: Request, **_: str) -> Response:
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["path"].removesuffix("/")
        return RedirectResponse(f"{root}{path}{'?' if query else ''}{query}", 308)

    folders = (
        MARKETS_FOLDER,
        CROSS_FOLDER,
        SIGNALS_FOLDER,
        BRIEFS_FOLDER,
        GUIDES_FOLDER,
        RECORD_FOLDER,
    )
    versions = f"{BRIEFS_FOLDER}{{name}}/{{version}}"
    for path in (*PAGES, *(f"{folder}{{name}}" for folder in folders), versions):
        if path != HOME_PATH:
            router.add(f"{path}/", redirect, "GET", "HEAD")

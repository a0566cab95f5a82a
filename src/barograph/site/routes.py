"""The pages that anyone may read, put together."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Router

from barograph.briefs.store import newest_slugs
from barograph.discovery.endpoints import Descriptions
from barograph.guides.catalog import Catalog
from barograph.history.guards import Continuity
from barograph.history.ledger import Ledger
from barograph.history.public_log import PublicLogs
from barograph.keys.registration import Registrations
from barograph.kit.database import Transaction
from barograph.limits.rate_limits import RateLimiter
from barograph.markets.symbols import symbol_of
from barograph.markets.view import PERPETUALS
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS
from barograph.site.briefs import brief_page_routes
from barograph.site.developers.endpoints import Tool, developers_routes
from barograph.site.developers.swagger import docs_routes
from barograph.site.frame.paths import (
    BRIEFS_FOLDER,
    BRIEFS_PAGE,
    DATA_FOLDER,
    GUIDES_FOLDER,
    HOME_PATH,
    MARKETS_FOLDER,
    MARKETS_PATH,
    PAGES,
    RECORD_FOLDER,
    REFERENCE_FOLDER,
    SIGNALS_FOLDER,
    SIGNALS_PAGE,
    STATIC_FOLDER,
)
from barograph.site.frame.responses import PageRouter
from barograph.site.frame.site import Site
from barograph.site.frame.static_endpoints import STATIC_PATHS, static_routes
from barograph.site.frame.writer import Terms
from barograph.site.guides import guide_page_routes, guide_paths
from barograph.site.home import home_routes
from barograph.site.keys import KeyPages
from barograph.site.markets import market_page_routes
from barograph.site.pricing import pricing_routes
from barograph.site.record import record_routes
from barograph.site.record_pages import Retention
from barograph.site.series import ChartReader, series_routes
from barograph.site.signals import signal_page_routes
from barograph.site.status import status_page_routes

PAGE_PATHS = (*PAGES, *STATIC_PATHS)
PAGE_FOLDERS = (
    BRIEFS_FOLDER,
    DATA_FOLDER,
    REFERENCE_FOLDER,
    GUIDES_FOLDER,
    MARKETS_FOLDER,
    RECORD_FOLDER,
    SIGNALS_FOLDER,
    STATIC_FOLDER,
)
"""What anyone may read, next to `PAGE_PATHS`."""

BRIEFS_MAPPED = 5_000
"""So many of the newest briefs are on the map for crawlers; all others are linked from page to
page."""


class SiteParts(NamedTuple):
    """What single pages are made of, beyond what all of them share."""

    catalog: Catalog
    terms: Terms
    registrations: Registrations | None
    limiter: RateLimiter
    described: Descriptions
    tools: Sequence[Tool]
    ledger: Ledger
    logs: PublicLogs
    continuity: Continuity
    source: str
    retention: Retention


def page_routes(site: Site, parts: SiteParts) -> list[Router]:
    """The routes of every page, and of what pages are made of."""
    catalog, terms = parts.catalog, parts.terms
    charts = ChartReader(site.series, site.pages.root, site.board.clock)
    return [
        home_routes(site, charts),
        market_page_routes(site, charts),
        signal_page_routes(site),
        brief_page_routes(site),
        guide_page_routes(site, catalog),
        record_routes(site, parts.ledger, parts.logs, parts.continuity, parts.retention),
        developers_routes(
            site,
            parts.described,
            tools=parts.tools,
            can_register=parts.registrations is not None,
            terms=terms,
        ),
        docs_routes(site),
        pricing_routes(site, terms),
        status_page_routes(site),
        series_routes(site, parts.source),
        KeyPages(site.pages, parts.registrations, parts.limiter, site.board.clock).routes(),
        static_routes(site, partial(_known_paths, site, catalog)),
        _slashed_routes(site.pages.root),
    ]


async def _known_paths(site: Site, catalog: Catalog) -> dict[str, int | None]:
    """Every page that crawlers should know, and when it last changed, where that is known."""

    async def work(tx: Transaction) -> list[tuple[str, int]]:
        return await newest_slugs(tx, BRIEFS_MAPPED)

    briefs = await site.database.read(work)
    index = site.markets.contracts(site.board) or {}
    symbols = {symbol_of(index, each) for each in index.values()}
    market, judged = site.board.latest(PERPETUALS), site.board.latest(SIGNALS)
    read_at = None if market is None else market.as_of
    judged_at = None if judged is None else judged.as_of
    return {
        **dict.fromkeys((*PAGES, *guide_paths(catalog))),
        **dict.fromkeys((HOME_PATH, MARKETS_PATH), read_at),
        **dict.fromkeys(
            (f"{MARKETS_FOLDER}{each}" for each in sorted(filter(None, symbols))), read_at
        ),
        **dict.fromkeys(
            (SIGNALS_PAGE, *(SIGNALS_FOLDER + each.key for each in METHODS)), judged_at
        ),
        BRIEFS_PAGE: max((at for _, at in briefs), default=None),
        **{f"{BRIEFS_FOLDER}{slug}": at for slug, at in briefs},
    }


def _slashed_routes(root: str) -> PageRouter:
    """Send who writes a slash after the address of a page to the page."""
    router = PageRouter()

    async def send_on(request: Request, **_: str) -> Response:
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["path"].removesuffix("/")
        return RedirectResponse(f"{root}{path}{'?' if query else ''}{query}", 308)

    folders = (MARKETS_FOLDER, SIGNALS_FOLDER, BRIEFS_FOLDER, GUIDES_FOLDER, RECORD_FOLDER)
    for path in (*PAGES, *(f"{folder}{{name}}" for folder in folders)):
        if path != HOME_PATH:
            router.add(f"{path}/", send_on, "GET", "HEAD")
    return router

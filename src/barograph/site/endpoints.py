"""The pages that anyone may read, put together."""

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import APIRouter

from barograph.access.gate import Gate
from barograph.access.registration import Registrations
from barograph.discovery.endpoints import Descriptions
from barograph.guides.catalog import Catalog
from barograph.signals.catalog import METHODS
from barograph.site.briefs.endpoints import brief_page_routes
from barograph.site.developers.docs_endpoints import docs_routes
from barograph.site.developers.endpoints import Tool, developers_routes
from barograph.site.frame.paths import (
    BRIEFS_FOLDER,
    DATA_FOLDER,
    GUIDES_PAGE,
    MARKETS_PATH,
    PAGES,
    RECORD_PATH,
    REFERENCE_PATH,
    SIGNALS_FOLDER,
    STATIC_FOLDER,
)
from barograph.site.frame.site import Site
from barograph.site.frame.static_endpoints import STATIC_PATHS, static_routes
from barograph.site.guides.endpoints import guide_page_routes
from barograph.site.home.endpoints import home_routes
from barograph.site.keys.endpoints import KeyPages
from barograph.site.markets.endpoints import market_page_routes
from barograph.site.pricing.endpoints import pricing_routes
from barograph.site.pricing.pages import Terms
from barograph.site.record.endpoints import record_routes
from barograph.site.series.endpoints import series_routes
from barograph.site.signals.endpoints import signal_page_routes
from barograph.site.status.endpoints import status_page_routes
from barograph.stances.continuity import Continuity
from barograph.stances.ledger import Ledger
from barograph.stances.public_log import PublicLogs

PAGE_PATHS = (*PAGES, *STATIC_PATHS)
PAGE_FOLDERS = (
    BRIEFS_FOLDER,
    DATA_FOLDER,
    f"{REFERENCE_PATH}/",
    f"{GUIDES_PAGE}/",
    f"{MARKETS_PATH}/",
    f"{RECORD_PATH}/",
    SIGNALS_FOLDER,
    STATIC_FOLDER,
)
"""What anyone may read, next to `PAGE_PATHS`."""


class SiteParts(NamedTuple):
    """What single pages are made of, beyond what all of them share."""

    catalog: Catalog
    terms: Terms
    registrations: Registrations | None
    gate: Gate
    described: Descriptions
    tools: Sequence[Tool]
    ledger: Ledger
    logs: PublicLogs
    continuity: Continuity
    source: str


def page_routes(site: Site, parts: SiteParts) -> list[APIRouter]:
    """The routes of every page, and of what pages are made of."""
    catalog, terms = parts.catalog, parts.terms
    known = [
        *PAGES,
        *(f"{GUIDES_PAGE}/{guide.slug}" for guide in catalog.guides),
        *(f"{SIGNALS_FOLDER}{method.key}" for method in METHODS),
    ]
    return [
        home_routes(site),
        market_page_routes(site),
        signal_page_routes(site),
        brief_page_routes(site),
        guide_page_routes(site, catalog),
        record_routes(site, parts.ledger, parts.logs, parts.continuity),
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
        series_routes(site.series, site.markets, site.board, parts.source),
        KeyPages(site.pages, parts.registrations, parts.gate, site.board.clock).routes(),
        static_routes(site, known),
    ]

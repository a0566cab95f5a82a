"""The pages that anyone may read."""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from barograph.access.feed_entry import PRICING_PATH
from barograph.board.board import Board
from barograph.briefs.reader import BriefsReader
from barograph.briefs.records import Brief
from barograph.briefs.store import brief_by_slug
from barograph.discovery.links import service_links
from barograph.errors import RecordUnavailable
from barograph.guides.catalog import Catalog
from barograph.guides.documents import PAGES_PATH
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.http import DocumentResponse
from barograph.signals.catalog import BY_KEY
from barograph.signals.reader import SignalsReader
from barograph.site.answers import CSS, Page, accepts, private_page
from barograph.site.pages import DEVELOPERS_PATH, STYLESHEET, STYLESHEET_PATH, Pages

PAGE_PATHS = ("/", "/guides", "/briefs", "/signals", DEVELOPERS_PATH, PRICING_PATH)
PAGE_FOLDERS = ("/guides/", "/briefs/", "/signals/", "/static/")
"""What anyone may read, next to `PAGE_PATHS`."""

RETRY_SECONDS = 5

_KEEP_STYLE = b"public, max-age=3600"
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,199}", re.ASCII)


def standing_pages(
    pages: Pages,
    catalog: Catalog,
    *,
    can_register: bool,
    takes_payments: bool = False,
    feed_price: Decimal = Decimal(25),
) -> dict[str, Page]:
    """The pages that stay the same for the life of a worker, by their path."""
    guides = {
        f"{PAGES_PATH}/{guide.slug}": Page(pages.guide(guide, catalog.source))
        for guide in catalog.guides
    }
    return {
        "/": Page(pages.home(), fields=service_links(pages.root)),
        PAGES_PATH: Page(pages.guides(catalog)),
        **guides,
        DEVELOPERS_PATH: Page(pages.developers(can_register=can_register)),
        PRICING_PATH: Page(pages.pricing(takes_payments=takes_payments, feed_price=feed_price)),
        STYLESHEET_PATH: Page(STYLESHEET, content_type=CSS, cache_control=_KEEP_STYLE),
    }


def page_routes(
    pages: Pages,
    standing: Mapping[str, Page],
    board: Board,
    database: Database,
    *,
    briefs: BriefsReader,
    signals: SignalsReader,
) -> APIRouter:
    """The routes of every page but those about keys."""
    router = APIRouter(include_in_schema=False)
    _route_standing_pages(router, standing, board.clock)
    _route_signals(router, pages, board, signals)
    _route_briefs(router, pages, board, database, briefs)
    return router


def _route_standing_pages(router: APIRouter, standing: Mapping[str, Page], clock: Clock) -> None:
    @router.get("/")
    @router.get(PAGES_PATH)
    @router.get(f"{PAGES_PATH}/{{slug}}")
    @router.get(DEVELOPERS_PATH)
    @router.get(PRICING_PATH)
    @router.get(STYLESHEET_PATH)
    async def read_standing(request: Request) -> DocumentResponse:
        page = standing.get(request.scope["path"])
        if page is None:
            raise HTTPException(404)
        return DocumentResponse(page, clock())


def _route_signals(router: APIRouter, pages: Pages, board: Board, reader: SignalsReader) -> None:
    @router.get("/signals")
    async def read_signals() -> DocumentResponse:
        now = board.clock()
        judged = reader.fresh(board, now)
        until = reader.known_until(board, now)
        return DocumentResponse(Page(pages.signals(judged), until=until), now)

    @router.get("/signals/{key}")
    async def read_signal(key: str) -> DocumentResponse:
        if key not in BY_KEY:
            raise HTTPException(404)
        now = board.clock()
        judged = reader.fresh(board, now)
        until = reader.known_until(board, now)
        return DocumentResponse(Page(pages.signal(BY_KEY[key], judged), until=until), now)


def _route_briefs(
    router: APIRouter, pages: Pages, board: Board, database: Database, reader: BriefsReader
) -> None:
    @router.get("/briefs")
    async def read_briefs() -> Response:
        now = board.clock()
        try:
            newest = reader.newest(board, now)
        except RecordUnavailable:
            return _unavailable(pages)
        until = reader.known_until(board)
        return DocumentResponse(Page(pages.briefs(newest.briefs), until=until), now)

    # Markdown is rendered once, not for each reader: everybody else waits meanwhile.
    rendered = lru_cache(maxsize=256)(pages.brief)

    @router.get("/briefs/{slug}")
    async def read_brief(slug: str) -> Response:
        try:
            brief = await _brief(database, slug)
        except DatabaseUnavailable:
            return _unavailable(pages)
        if brief is None:
            raise HTTPException(404)
        return DocumentResponse(Page(rendered(brief)), board.clock())


def missing_page(pages: Pages, request: Request) -> Response | None:
    """The page that says there is none; None where a program asked."""
    is_for_programs = request.scope["path"].startswith(("/api", "/badge"))
    if is_for_programs or not accepts(request.scope["headers"], b"text/html"):
        return None
    return private_page(404, pages.not_found())


async def _brief(database: Database, slug: str) -> Brief | None:
    if _SLUG.fullmatch(slug) is None:
        return None

    async def work(tx: Transaction) -> Brief | None:
        return await brief_by_slug(tx, slug)

    return await database.read(work)


def _unavailable(pages: Pages) -> Response:
    return private_page(503, pages.unavailable(), (b"retry-after", b"%d" % RETRY_SECONDS))

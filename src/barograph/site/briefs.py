"""`/briefs`: the list of briefs, page by page, and a page for each brief."""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.briefs.documents import BRIEFS_PATH
from barograph.briefs.records import CATEGORIES, OPERATOR, Brief, BriefsPage, Neighbours
from barograph.briefs.store import BRIEFS, brief_by_slug, brief_neighbours, briefs_page
from barograph.kit.database import Transaction
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.symbols import MAX_LENGTH, normalized
from barograph.site.paths import BRIEFS_FOLDER, BRIEFS_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import SITE_NAME, Templates, utc_text

PAGE_SIZE = 20
CACHED_PAGES = 5
"""Only the first pages of each list are cached; few visitors go further back."""

CACHED_BRIEFS = 256

_PAGE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,199}", re.ASCII)


class BriefsQuery(NamedTuple):
    """Which briefs to list."""

    category: str | None = None
    coin: str | None = None
    page: int = 1

    @property
    def text(self) -> str:
        """The canonical query string."""
        given = {"category": self.category, "coin": self.coin}
        given["page"] = str(self.page) if self.page > 1 else None
        return urlencode({name: value for name, value in given.items() if value is not None})

    @property
    def path(self) -> str:
        """The canonical path and query of this list."""
        return f"{BRIEFS_PAGE}?{self.text}" if self.text else BRIEFS_PAGE

    @property
    def offset(self) -> int:
        """How many briefs come before this page."""
        return (self.page - 1) * PAGE_SIZE


def parse_briefs_query(query: QueryParams) -> BriefsQuery | None:
    """Read a query string; None if it is invalid. Empty and unknown parameters are ignored."""
    values = {name: query.getlist(name) or [""] for name in ("category", "coin", "page")}
    if any(len(each) > 1 for each in values.values()):
        return None
    category, coin, page = (each[0].strip() for each in values.values())
    symbol, page = normalized(coin), page or "1"
    if category and category not in CATEGORIES:
        return None
    if (coin and symbol is None) or _PAGE.fullmatch(page) is None:
        return None
    return BriefsQuery(category or None, symbol, int(page))


def render_list(templates: Templates, query: BriefsQuery, found: BriefsPage) -> bytes | None:
    """A page of the list; None beyond its end."""
    last = max(1, -(-found.total // PAGE_SIZE))
    if query.page > last:
        return None
    return templates.render(
        "briefs.html",
        here=BRIEFS_PAGE,
        query=query,
        briefs=found.briefs,
        total=found.total,
        last=last,
        newer=query._replace(page=query.page - 1) if query.page > 1 else None,
        older=query._replace(page=query.page + 1) if query.page < last else None,
        choices=[(name, query._replace(category=name, page=1)) for name in (None, *CATEGORIES)],
        everything=BriefsQuery(),
        max_coin=MAX_LENGTH,
        api_path=BRIEFS_PATH,
    )


def render_brief(templates: Templates, brief: Brief, neighbours: Neighbours) -> bytes:
    """One brief with its evidence, and links to the briefs before and after it."""
    return templates.render(
        "brief.html",
        here=BRIEFS_PAGE,
        brief=brief,
        operator=OPERATOR,
        neighbours=neighbours,
        citation=citation(brief, templates.base_url),
        article=article(brief, templates.base_url),
        category_path=BriefsQuery(category=brief.category).path,
        coin_paths=[(coin, BriefsQuery(coin=coin).path) for coin in brief.coins],
        api_path=BRIEFS_PATH,
    )


def article(brief: Brief, base_url: str) -> dict[str, object]:
    """A brief as a schema.org article, for search engines."""
    publisher = {"@type": "Organization", "name": SITE_NAME, "url": f"{base_url}/"}
    return {
        "@context": "https://schema.org",
        "@type": "Article",
        "headline": brief.headline,
        "description": brief.summary,
        "datePublished": iso_timestamp(brief.published_at),
        "articleSection": brief.category,
        "keywords": list(brief.coins),
        "url": f"{base_url}{BRIEFS_FOLDER}{brief.slug}",
        "isAccessibleForFree": True,
        "author": publisher,
        "publisher": publisher,
    }


def citation(brief: Brief, base_url: str) -> str:
    """A ready-made citation."""
    return (
        f"“{brief.headline}”, {SITE_NAME}, {utc_text(brief.published_at)} ({brief.source}). "
        f"{base_url}{BRIEFS_FOLDER}{brief.slug} · {NOTICE}"
    )


class _BriefInList(NamedTuple):
    brief: Brief
    neighbours: Neighbours


def brief_page_routes(site: Site) -> PageRouter:
    """The routes of the list and of every brief."""
    router = PageRouter()
    _route_list(router, site)
    _route_brief(router, site)
    return router


def _route_list(router: PageRouter, site: Site) -> None:
    @router.get(BRIEFS_PAGE)
    async def read_briefs(request: Request) -> Response:
        query = parse_briefs_query(request.query_params)
        if query is None:
            raise HTTPException(404)

        async def render(now: int) -> Page:
            body = render_list(site.templates, query, await _read_list(site, query))
            if body is None:
                raise HTTPException(404)
            return Page(body, since=now, until=site.briefs.known_until(site.board))

        is_cached = query.coin is None and query.page <= CACHED_PAGES
        return await site.respond(request, render, query=query.text.encode() if is_cached else None)


def _route_brief(router: PageRouter, site: Site) -> None:
    # Cached, because rendering Markdown blocks the event loop.
    @lru_cache(maxsize=CACHED_BRIEFS)
    def page(found: _BriefInList) -> Page:
        return Page(render_brief(site.templates, found.brief, found.neighbours))

    @router.get(f"{BRIEFS_FOLDER}{{slug}}")
    async def read_brief(request: Request, slug: str) -> Response:
        async def render(_: int) -> Page:
            found = await _read_brief(site, slug)
            if found is None:
                raise HTTPException(404)
            return page(found)

        return await site.respond(request, render, query=b"" if _is_new(site, slug) else None)


def _is_new(site: Site, slug: str) -> bool:
    newest = site.board.latest(BRIEFS)
    return newest is not None and any(each.slug == slug for each in newest.briefs)


async def _read_list(site: Site, query: BriefsQuery) -> BriefsPage:
    return await site.database.read(
        lambda tx: briefs_page(
            tx, category=query.category, coin=query.coin, offset=query.offset, count=PAGE_SIZE
        )
    )


async def _read_brief(site: Site, slug: str) -> _BriefInList | None:
    if _SLUG.fullmatch(slug) is None:
        return None

    async def work(tx: Transaction) -> _BriefInList | None:
        brief = await brief_by_slug(tx, slug)
        return None if brief is None else _BriefInList(brief, await brief_neighbours(tx, brief))

    return await site.database.read(work)

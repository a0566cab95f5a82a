"""`/briefs`: every recorded brief, page by page, and each by itself."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from barograph import NOTICE
from barograph.briefs.documents import BRIEFS_PATH, PAGE_FOLDER
from barograph.briefs.records import CATEGORIES, OPERATOR, Brief, BriefsPage, Neighbours
from barograph.briefs.store import BRIEFS, brief_by_slug, brief_neighbours, briefs_page
from barograph.kit.database import Transaction
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.symbols import MAX_LENGTH, normalized
from barograph.site.frame.paths import BRIEFS_PAGE
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import Site
from barograph.site.frame.writer import SITE_NAME, Pages

PAGE_SIZE = 20

_PAGE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


class Asked(NamedTuple):
    """Which briefs are listed."""

    category: str | None = None
    coin: str | None = None
    page: int = 1

    @property
    def query(self) -> str:
        """The one query that asks for this."""
        given = {"category": self.category, "coin": self.coin}
        given["page"] = str(self.page) if self.page > 1 else None
        return urlencode({name: value for name, value in given.items() if value is not None})

    @property
    def address(self) -> str:
        """The one address of this list, below the root."""
        return f"{BRIEFS_PAGE}?{self.query}" if self.query else BRIEFS_PAGE

    @property
    def offset(self) -> int:
        """How many briefs come before this page."""
        return (self.page - 1) * PAGE_SIZE


def asked_from_query(query: QueryParams) -> Asked | None:
    """Read what is asked for; None for what can be no list. Other parameters are ignored."""
    values = {name: query.getlist(name) or [""] for name in ("category", "coin", "page")}
    if any(len(each) > 1 for each in values.values()):
        return None
    return _asked({name: each[0].strip() for name, each in values.items()})


def _asked(given: Mapping[str, str]) -> Asked | None:
    """A field that was left empty, as forms send it, asks for everything."""
    category, coin, page = given["category"], normalized(given["coin"]), given["page"] or "1"
    if category and category not in CATEGORIES:
        return None
    if (given["coin"] and coin is None) or _PAGE.fullmatch(page) is None:
        return None
    return Asked(category or None, coin, int(page))


def write_briefs(pages: Pages, asked: Asked, found: BriefsPage) -> bytes | None:
    """A page of the list; None beyond its end."""
    last = max(1, -(-found.total // PAGE_SIZE))
    if asked.page > last:
        return None
    return pages.fill(
        "briefs.html",
        here=BRIEFS_PAGE,
        asked=asked,
        briefs=found.briefs,
        total=found.total,
        last=last,
        newer=asked._replace(page=asked.page - 1) if asked.page > 1 else None,
        older=asked._replace(page=asked.page + 1) if asked.page < last else None,
        choices=[(name, asked._replace(category=name, page=1)) for name in (None, *CATEGORIES)],
        everything=Asked(),
        longest=MAX_LENGTH,
        api_path=BRIEFS_PATH,
    )


def write_brief(pages: Pages, brief: Brief, around: Neighbours) -> bytes:
    """One brief, where it comes from, and those before and after it."""
    return pages.fill(
        "brief.html",
        here=BRIEFS_PAGE,
        brief=brief,
        operator=OPERATOR,
        around=around,
        citation=citation(brief, pages.base_url),
        article=article(brief, pages.base_url),
        of_category=Asked(category=brief.category).address,
        of_coins=[(coin, Asked(coin=coin).address) for coin in brief.coins],
        api_path=BRIEFS_PATH,
    )


def article(brief: Brief, base_url: str) -> dict[str, object]:
    """A brief in the words of schema.org, for search engines."""
    publisher = {"@type": "Organization", "name": SITE_NAME, "url": f"{base_url}/"}
    return {
        "@context": "https://schema.org",
        "@type": "Article",
        "headline": brief.headline,
        "description": brief.summary,
        "datePublished": iso_timestamp(brief.published_at),
        "articleSection": brief.category,
        "keywords": list(brief.coins),
        "url": f"{base_url}{PAGE_FOLDER}{brief.slug}",
        "isAccessibleForFree": True,
        "author": publisher,
        "publisher": publisher,
    }


def citation(brief: Brief, base_url: str) -> str:
    """How a brief is cited: what, by whom, when, where, and that it is no advice."""
    at = iso_timestamp(brief.published_at)
    return (
        f"“{brief.headline}”, {SITE_NAME}, {at} ({brief.source}). "
        f"{base_url}{PAGE_FOLDER}{brief.slug} · {NOTICE}"
    )


KEPT_PAGES = 5
"""So many pages of each list stay ready; further back only few look."""

KEPT_BRIEFS = 256

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,199}", re.ASCII)


class _Found(NamedTuple):
    brief: Brief
    around: Neighbours


def brief_page_routes(site: Site) -> PageRouter:
    """The routes of the list and of every brief."""
    router = PageRouter()
    _route_list(router, site)
    _route_brief(router, site)
    return router


def _route_list(router: PageRouter, site: Site) -> None:
    @router.get(BRIEFS_PAGE)
    async def read_briefs(request: Request) -> Response:
        asked = asked_from_query(request.query_params)
        if asked is None:
            raise HTTPException(404)

        async def write(now: int) -> Page:
            body = write_briefs(site.pages, asked, await _list(site, asked))
            if body is None:
                raise HTTPException(404)
            return Page(body, since=now, until=site.briefs.known_until(site.board))

        is_kept = asked.coin is None and asked.page <= KEPT_PAGES
        return await site.show(request, write, query=asked.query.encode() if is_kept else None)


def _route_brief(router: PageRouter, site: Site) -> None:
    # Markdown is rendered once, not for each reader: everybody else waits meanwhile.
    @lru_cache(maxsize=KEPT_BRIEFS)
    def written(found: _Found) -> Page:
        return Page(write_brief(site.pages, found.brief, found.around))

    @router.get(f"{PAGE_FOLDER}{{slug}}")
    async def read_brief(request: Request, slug: str) -> Response:
        async def write(_: int) -> Page:
            found = await _brief(site, slug)
            if found is None:
                raise HTTPException(404)
            return written(found)

        return await site.show(request, write, query=b"" if _is_new(site, slug) else None)


def _is_new(site: Site, slug: str) -> bool:
    newest = site.board.latest(BRIEFS)
    return newest is not None and any(each.slug == slug for each in newest.briefs)


async def _list(site: Site, asked: Asked) -> BriefsPage:
    async def work(tx: Transaction) -> BriefsPage:
        return await briefs_page(
            tx, category=asked.category, coin=asked.coin, offset=asked.offset, count=PAGE_SIZE
        )

    return await site.database.read(work)


async def _brief(site: Site, slug: str) -> _Found | None:
    if _SLUG.fullmatch(slug) is None:
        return None

    async def work(tx: Transaction) -> _Found | None:
        brief = await brief_by_slug(tx, slug)
        return None if brief is None else _Found(brief, await brief_neighbours(tx, brief))

    return await site.database.read(work)

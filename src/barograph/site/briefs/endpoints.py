"""`/briefs`: every recorded brief, page by page, and each by itself."""

import re
from functools import lru_cache
from typing import NamedTuple

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.briefs.documents import PAGE_FOLDER
from barograph.briefs.feeds import BRIEFS
from barograph.briefs.records import Brief, BriefsPage, Neighbours
from barograph.briefs.store import brief_by_slug, brief_neighbours, briefs_page
from barograph.kit.database import Transaction
from barograph.site.briefs.pages import (
    PAGE_SIZE,
    Asked,
    asked_from_query,
    write_brief,
    write_briefs,
)
from barograph.site.frame.answers import Page
from barograph.site.frame.paths import BRIEFS_PAGE
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.site import Site

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

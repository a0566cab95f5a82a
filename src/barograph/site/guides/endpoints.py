"""`/guides`: the catalog and each of its guides, the same for the life of a worker."""

from functools import cache

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.guides.catalog import Catalog
from barograph.site.frame.answers import Page
from barograph.site.frame.paths import GUIDES_FOLDER, GUIDES_PAGE
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.site import Site
from barograph.site.guides.pages import guide_paths, write_guide, write_guides


def guide_page_routes(site: Site, catalog: Catalog) -> PageRouter:
    """The routes of the catalog and of every guide."""
    router = PageRouter()
    guides = guide_paths(catalog)

    @cache
    def written(path: str) -> Page:
        if path == GUIDES_PAGE:
            return Page(write_guides(site.pages, catalog))
        return Page(write_guide(site.pages, guides[path], catalog))

    @router.get(GUIDES_PAGE)
    @router.get(f"{GUIDES_FOLDER}{{slug}}")
    async def read(request: Request, slug: str | None = None) -> Response:
        path = GUIDES_PAGE if slug is None else f"{GUIDES_FOLDER}{slug}"
        if slug is not None and path not in guides:
            raise HTTPException(404)
        return site.give(request, written(path))

    return router

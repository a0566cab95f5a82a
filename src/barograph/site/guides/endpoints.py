"""`/guides`: the catalog and each of its guides, the same for the life of a worker."""

from functools import cache

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from barograph.guides.catalog import Catalog
from barograph.guides.documents import PAGES_PATH
from barograph.site.frame.answers import Page
from barograph.site.frame.site import Site
from barograph.site.guides.pages import guide_paths, write_guide, write_guides


def guide_page_routes(site: Site, catalog: Catalog) -> APIRouter:
    """The routes of the catalog and of every guide."""
    router = APIRouter(include_in_schema=False)
    guides = guide_paths(catalog)

    @cache
    def written(path: str) -> Page:
        if path == PAGES_PATH:
            return Page(write_guides(site.pages, catalog))
        return Page(write_guide(site.pages, guides[path], catalog.source))

    @router.get(PAGES_PATH)
    @router.get(f"{PAGES_PATH}/{{slug}}")
    async def read(request: Request) -> Response:
        path = request.scope["path"]
        if path != PAGES_PATH and path not in guides:
            raise HTTPException(404)

        async def write(_: int) -> Page:
            return written(path)

        return await site.show(request, write)

    return router

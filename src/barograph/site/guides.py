"""`/guides`: the catalog and each of its guides, the same for the life of a worker."""

from functools import cache

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.guides.catalog import Catalog, Guide
from barograph.guides.documents import GUIDES_PATH
from barograph.site.frame.paths import GUIDES_FOLDER, GUIDES_PAGE
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import Site
from barograph.site.frame.writer import Pages


def guide_paths(catalog: Catalog) -> dict[str, Guide]:
    """The page of every guide, by its path."""
    return {f"{GUIDES_FOLDER}{guide.slug}": guide for guide in catalog.guides}


def write_guides(pages: Pages, catalog: Catalog) -> bytes:
    """The catalog, with every price."""
    return pages.fill("guides.html", here=GUIDES_PAGE, catalog=catalog, api_path=GUIDES_PATH)


def write_guide(pages: Pages, guide: Guide, catalog: Catalog) -> bytes:
    """One guide of a catalog."""
    return pages.fill(
        "guide.html", here=GUIDES_PAGE, guide=guide, catalog=catalog, api_path=GUIDES_PATH
    )


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

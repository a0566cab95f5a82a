"""`/guides`: the catalog and a page for each guide, rendered once per worker."""

from functools import cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.guides.catalog import Catalog, Guide
from barograph.guides.documents import GUIDES_PATH
from barograph.site.paths import GUIDES_FOLDER, GUIDES_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site


def guide_paths(catalog: Catalog) -> dict[str, Guide]:
    """Every guide by the path of its page."""
    return {f"{GUIDES_FOLDER}{guide.slug}": guide for guide in catalog.guides}


def guide_page_routes(router: PageRouter, site: Site, catalog: Catalog) -> None:
    """The routes of the catalog and of every guide."""
    guides = guide_paths(catalog)

    @cache
    def page(path: str) -> Page:
        values = {"here": GUIDES_PAGE, "catalog": catalog, "api_path": GUIDES_PATH}
        if path == GUIDES_PAGE:
            return Page(site.templates.render("guides.html", **values))
        return Page(site.templates.render("guide.html", guide=guides[path], **values))

    @router.get(GUIDES_PAGE)
    @router.get(f"{GUIDES_FOLDER}{{slug}}")
    async def read(request: Request, slug: str | None = None) -> Response:
        path = GUIDES_PAGE if slug is None else f"{GUIDES_FOLDER}{slug}"
        if slug is not None and path not in guides:
            raise HTTPException(404)
        return site.respond_unchanging(request, page(path))

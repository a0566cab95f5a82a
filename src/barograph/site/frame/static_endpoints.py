"""The files that pages are made of, the icon that browsers ask for, and the map for crawlers."""

from collections.abc import Awaitable, Callable, Mapping
from xml.sax.saxutils import escape

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.kit.timestamps import iso_timestamp
from barograph.site.frame.paths import STATIC_FOLDER
from barograph.site.frame.responses import KEEP, Page, PageRouter
from barograph.site.frame.site import Site

ICON_PATH = "/favicon.ico"
SITEMAP_PATH = "/sitemap.xml"
STATIC_PATHS = (ICON_PATH, SITEMAP_PATH)
"""What anyone may read, next to the folder of static files."""

_ICON_FILE = "favicon.ico"
_XML = b"application/xml; charset=utf-8"

KnownPaths = Callable[[], Awaitable[Mapping[str, int | None]]]
"""Finds the pages that crawlers should know, and when each last changed; None: not known."""


def static_routes(site: Site, known_paths: KnownPaths) -> PageRouter:
    """The routes of static files and of the map."""
    router = PageRouter()

    async def write_map(_: int) -> Page:
        text = sitemap_text(site.pages.base_url, await known_paths())
        return Page(text, content_type=_XML, cache_control=KEEP)

    @router.get(f"{STATIC_FOLDER}{{name}}")
    async def read_static(request: Request, name: str) -> Response:
        return _show_file(site, request, name, request.query_params.get("v"))

    @router.get(ICON_PATH)
    async def read_icon(request: Request) -> Response:
        return _show_file(site, request, _ICON_FILE, None)

    @router.get(SITEMAP_PATH)
    async def read_sitemap(request: Request) -> Response:
        return await site.show(request, write_map)

    return router


def _show_file(site: Site, request: Request, name: str, version: str | None) -> Response:
    file = site.pages.files.get(name)
    if file is None:
        raise HTTPException(404)
    query = file.usual_query(version)
    return site.give(request, file.pages[query], query=query)


def sitemap_text(base_url: str, paths: Mapping[str, int | None]) -> bytes:
    """A sitemap by the protocol of sitemaps.org; a page without a known time has no `lastmod`."""
    places = "".join(
        f"<url><loc>{escape(base_url + path)}</loc>{_lastmod(at)}</url>\n"
        for path, at in paths.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{places}</urlset>\n"
    ).encode()


def _lastmod(at: int | None) -> str:
    return "" if at is None else f"<lastmod>{iso_timestamp(at)}</lastmod>"

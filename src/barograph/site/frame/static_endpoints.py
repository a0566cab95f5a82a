"""The files that pages are made of, the icon that browsers ask for, and the map for crawlers."""

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePosixPath
from xml.sax.saxutils import escape

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from barograph.site.frame.answers import CSS, PNG, SCRIPT, SVG, Page
from barograph.site.frame.site import Site
from barograph.site.frame.writer import STATIC_FOLDER, static_file

ICON_PATH = "/favicon.ico"
SITEMAP_PATH = "/sitemap.xml"
STATIC_PATHS = (ICON_PATH, SITEMAP_PATH)
"""What anyone may read, next to the folder of static files."""

ICON_FILE = "favicon.ico"
KEEP = b"public, max-age=3600"
KEEP_FOR_EVER = b"public, max-age=31536000, immutable"

_TYPES = {
    ".css": CSS,
    ".js": SCRIPT,
    ".svg": SVG,
    ".png": PNG,
    ".ico": b"image/x-icon",
}
_XML = b"application/xml; charset=utf-8"


def static_names() -> list[str]:
    """The files there are."""
    return sorted(entry.name for entry in (files("barograph.site") / "static").iterdir())


def static_routes(site: Site, sitemap: Iterable[str]) -> APIRouter:
    """The routes of static files; `sitemap` are the paths of pages that crawlers should know."""
    router = APIRouter(include_in_schema=False)
    _route_files(router, site)
    known = Page(sitemap_text(site.pages.base_url, sitemap), content_type=_XML, cache_control=KEEP)

    @router.get(SITEMAP_PATH)
    async def read_sitemap(request: Request) -> Response:
        async def write(_: int) -> Page:
            return known

        return await site.show(request, write, keep=request.scope["query_string"] == b"")

    return router


def _route_files(router: APIRouter, site: Site) -> None:
    names = frozenset(static_names())

    @router.get(f"{STATIC_FOLDER}{{name}}")
    async def read_static(request: Request, name: str) -> Response:
        if name not in names:
            raise HTTPException(404)
        # Pages have it by an address that changes with it: what that names stays for ever.
        version = site.pages.static(name).rpartition("?")[2].encode()
        query = request.scope["query_string"]

        async def write(_: int) -> Page:
            return _page(name, static_file(name), KEEP_FOR_EVER if query == version else KEEP)

        return await site.show(request, write, keep=query in {b"", version})

    @router.get(ICON_PATH)
    async def read_icon(request: Request) -> Response:
        async def write(_: int) -> Page:
            return _page(ICON_FILE, static_file(ICON_FILE), KEEP)

        return await site.show(request, write, keep=request.scope["query_string"] == b"")


# Compressed once; by its content, so that a file that is edited is never given by a wrong version.
@lru_cache(maxsize=64)
def _page(name: str, body: bytes, cache_control: bytes) -> Page:
    content_type = _TYPES[PurePosixPath(name).suffix]
    return Page(body, content_type=content_type, cache_control=cache_control)


def sitemap_text(base_url: str, paths: Iterable[str]) -> bytes:
    """A sitemap by the protocol of sitemaps.org: whole addresses, nothing else is known of them."""
    places = "".join(f"<url><loc>{escape(base_url + path)}</loc></url>\n" for path in paths)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{places}</urlset>\n"
    ).encode()

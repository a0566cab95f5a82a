"""`/docs`: the interactive API reference, with Swagger UI from an installed package."""

from asyncio import to_thread
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.discovery.openapi import INTERFACE_VERSION
from barograph.kit.caches import SingleFlight
from barograph.kit.http import DocumentResponse
from barograph.site.paths import DEVELOPERS_PATH, REFERENCE_FOLDER, REFERENCE_PATH
from barograph.site.responses import (
    CACHE_FOREVER,
    CACHE_ONE_HOUR,
    CSS,
    REVALIDATE,
    SCRIPT,
    SECURITY_HEADERS,
    Page,
    PageRouter,
)
from barograph.site.site import Site

_PACKAGE = "fastapi_offline"
_DISTRIBUTION = "fastapi-offline"
_TYPES = {"swagger-ui-bundle.js": SCRIPT, "swagger-ui.css": CSS}

_POLICY = b"content-security-policy"
DOCS_SECURITY_HEADERS = [
    (name, value.replace(b"img-src 'self'", b"img-src 'self' data:") if name == _POLICY else value)
    for name, value in SECURITY_HEADERS
]
"""Allows the images that are part of Swagger UI's stylesheet."""


class SwaggerFiles:
    """The files of Swagger UI; compressing them takes long, so it is done on first use."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, bytes], Page] = {}
        self._flights: SingleFlight[tuple[str, bytes], Page] = SingleFlight()

    async def get(self, name: str, version: str | None) -> Page:
        """A file by its name; only its own version may be cached forever."""
        key = (name, _cache_control(version))
        if key not in self._pages:
            self._pages[key] = await self._flights.do(key, partial(to_thread, _page, *key))
        return self._pages[key]


def docs_routes(router: PageRouter, site: Site) -> None:
    """The routes of the page and of its files."""
    swagger = SwaggerFiles()

    @cache
    def page() -> Page:
        body = site.templates.render(
            "docs.html",
            here=DEVELOPERS_PATH,
            folder=REFERENCE_FOLDER,
            version=swagger_version(),
            interface_version=INTERFACE_VERSION,
        )
        return Page(body, security=DOCS_SECURITY_HEADERS)

    @router.get(REFERENCE_PATH)
    async def read_docs(request: Request) -> Response:
        return site.respond_unchanging(request, page())

    @router.get(f"{REFERENCE_FOLDER}{{name}}")
    async def read_file(request: Request, name: str) -> Response:
        if name not in _TYPES:
            raise HTTPException(404)
        file = await swagger.get(name, request.query_params.get("v"))
        return DocumentResponse(file, site.board.clock())


@cache
def swagger_version() -> str:
    """The version of the package; it is part of the files' URLs."""
    return version(_DISTRIBUTION)


def _cache_control(version: str | None) -> bytes:
    if version is None:
        return CACHE_ONE_HOUR
    return CACHE_FOREVER if version == swagger_version() else REVALIDATE


def _page(name: str, cache_control: bytes) -> Page:
    body = (files(_PACKAGE) / "static" / name).read_bytes()
    return Page(body, content_type=_TYPES[name], cache_control=cache_control)

"""`/docs`: the interface to browse and to try out, with Swagger UI from an installed package."""

from asyncio import to_thread
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.discovery.openapi import INTERFACE_VERSION
from barograph.kit.caches import SingleFlight
from barograph.kit.http import DocumentResponse
from barograph.site.frame.paths import REFERENCE_FOLDER, REFERENCE_PATH
from barograph.site.frame.responses import (
    CSS,
    GUARD,
    KEEP,
    KEEP_FOR_EVER,
    LOOK_EACH_TIME,
    SCRIPT,
    Page,
    PageRouter,
)
from barograph.site.frame.site import Site

_PACKAGE = "fastapi_offline"
_DISTRIBUTION = "fastapi-offline"
_TYPES = {"swagger-ui-bundle.js": SCRIPT, "swagger-ui.css": CSS}

_POLICY = b"content-security-policy"
DOCS_GUARD = [
    (name, value.replace(b"img-src 'self'", b"img-src 'self' data:") if name == _POLICY else value)
    for name, value in GUARD
]
"""The guard of every page; the pictures of Swagger UI are written into its stylesheet."""


class SwaggerFiles:
    """The files of Swagger UI: read and packed when somebody asks first, which takes long."""

    def __init__(self) -> None:
        self._packed: dict[tuple[str, bytes], Page] = {}
        self._packing: SingleFlight[tuple[str, bytes], Page] = SingleFlight()

    async def get(self, name: str, version: str | None) -> Page:
        """A file by its name; only by its own version it may be kept for ever."""
        key = (name, _kept(version))
        if key not in self._packed:
            self._packed[key] = await self._packing.do(key, partial(to_thread, _page, *key))
        return self._packed[key]


def docs_routes(site: Site) -> PageRouter:
    """The routes of the page and of what it is made of."""
    router = PageRouter()
    swagger = SwaggerFiles()

    @cache
    def written() -> Page:
        body = site.pages.fill(
            "docs.html",
            folder=REFERENCE_FOLDER,
            version=swagger_version(),
            interface_version=INTERFACE_VERSION,
        )
        return Page(body, guard=DOCS_GUARD)

    @router.get(REFERENCE_PATH)
    async def read_docs(request: Request) -> Response:
        return site.give(request, written())

    @router.get(f"{REFERENCE_FOLDER}{{name}}")
    async def read_file(request: Request, name: str) -> Response:
        if name not in _TYPES:
            raise HTTPException(404)
        page = await swagger.get(name, request.query_params.get("v"))
        return DocumentResponse(page, site.board.clock())

    return router


@cache
def swagger_version() -> str:
    """The version of the package that the files come from; their addresses change with it."""
    return version(_DISTRIBUTION)


def _kept(version: str | None) -> bytes:
    if version is None:
        return KEEP
    return KEEP_FOR_EVER if version == swagger_version() else LOOK_EACH_TIME


def _page(name: str, cache_control: bytes) -> Page:
    body = (files(_PACKAGE) / "static" / name).read_bytes()
    return Page(body, content_type=_TYPES[name], cache_control=cache_control)

"""`/api/agent`, the descriptions of the interface, and the small files that programs look for."""

import json
from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from barograph.discovery import files
from barograph.discovery.catalogs import API_CATALOG_TYPE, Index, api_catalog, x402_catalog
from barograph.discovery.gpt_actions import gpt_schema
from barograph.discovery.llms import llms_full_text, llms_text
from barograph.discovery.mcp_description import (
    CARD_PATH,
    CARD_TYPE,
    CATALOG_PATH,
    CATALOG_TYPE,
    FORMER_CARD_PATH,
    REGISTRY_PATH,
    ai_catalog,
    registry_entry,
    server_card,
)
from barograph.discovery.openapi import openapi_schema
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.documents import JSON, Document, Headers
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import Schema, operation
from barograph.settings import Settings

TEXT = b"text/plain; charset=utf-8"
MARKDOWN = b"text/markdown; charset=utf-8"
KEEP = b"public, max-age=300, stale-while-revalidate=60"
"""Short, because a new version of the service may change these files."""

KEEP_CARD = b"public, max-age=3600"

Documents = Mapping[str, Document]
"""By path."""


class Descriptions:
    """The descriptions of an application, rendered once, on the first request."""

    def __init__(self, make: Callable[[Starlette], Documents]) -> None:
        """`make` is slow, so it runs in a thread."""
        self._make = make
        self._made: Documents | None = None
        self._making: SingleFlight[str, Documents] = SingleFlight()

    async def of(self, app: Starlette) -> Documents:
        """Every description of this application, which must have all its routes by now."""
        return self._made or await self._making.do("", partial(self._render, app))

    async def _render(self, app: Starlette) -> Documents:
        self._made = await to_thread(self._make, app)
        return self._made


def descriptions(app: Starlette, base_url: str, prices: Mapping[str, str]) -> Documents:
    """Render every description of an application's interface."""
    schema = openapi_schema(app, base_url, prices)
    return {
        files.OPENAPI_PATH: _text(_encoded(schema), JSON, files.service_links(base_url)),
        files.GPT_PATH: _text(_encoded(gpt_schema(schema)), JSON),
        files.LLMS_PATH: _text(llms_text(schema)),
        files.LLMS_FULL_PATH: _text(llms_full_text(schema)),
    }


def discovery_routes(
    settings: Settings,
    index: Document,
    described: Descriptions,
    clock: Clock,
    offers: Callable[[], Sequence[bytes]],
) -> ApiRouter:
    """The routes of everything that describes the service; `offers` returns the 402 bodies."""
    router = ApiRouter(tags=["discovery"])
    base_url, contact = settings.base_url, settings.security_contact
    documents = _files(base_url, settings.repository_url)

    @router.get(files.INDEX_PATH, **operation("getIndex", Index))
    async def read_index(_: Request) -> DocumentResponse:
        return DocumentResponse(index, clock())

    async def read_description(request: Request) -> DocumentResponse:
        found = await described.of(request.app)
        return DocumentResponse(found[request.scope["path"]], clock())

    async def read_file(request: Request) -> DocumentResponse:
        return DocumentResponse(documents[request.scope["path"]], clock())

    for path in (files.OPENAPI_PATH, files.GPT_PATH, files.LLMS_PATH, files.LLMS_FULL_PATH):
        router.get(path)(read_description)
    for path in documents:
        router.get(path)(read_file)

    @router.get(files.SECURITY_PATH)
    async def read_security(_: Request) -> DocumentResponse:
        if not contact:
            raise HTTPException(404)
        now = clock()
        return DocumentResponse(_text(files.security_text(contact, base_url, now)), now)

    _route_offers(router, offers, clock)
    return router


def _route_offers(router: ApiRouter, offers: Callable[[], Sequence[bytes]], clock: Clock) -> None:
    @router.get(files.X402_PATH)
    async def read_offers(_: Request) -> DocumentResponse:
        return DocumentResponse(_card(x402_catalog(offers()), JSON), clock())


def _files(base_url: str, repository_url: str) -> Documents:
    """The files that depend on these addresses alone."""
    card = _card(server_card(base_url), CARD_TYPE.encode())
    return {
        files.SKILL_PATH: _text(files.skill_text(base_url), MARKDOWN),
        files.ROBOTS_PATH: _text(files.robots_text(base_url)),
        CARD_PATH: card,
        FORMER_CARD_PATH: card,
        REGISTRY_PATH: _card(registry_entry(base_url, repository_url), JSON),
        CATALOG_PATH: _card(ai_catalog(base_url), CATALOG_TYPE.encode()),
        files.API_CATALOG_PATH: _card(
            api_catalog(base_url), API_CATALOG_TYPE.encode(), files.service_links(base_url)
        ),
    }


def _card(body: bytes, content_type: bytes, fields: Headers | None = None) -> Document:
    return Document(body, content_type=content_type, cache_control=KEEP_CARD, fields=fields)


def _encoded(schema: Schema) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _text(text: str, content_type: bytes = TEXT, fields: Headers | None = None) -> Document:
    return Document(
        text.encode(), content_type=content_type, cache_control=KEEP, fields=fields, compress=True
    )

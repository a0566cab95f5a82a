"""`/api/agent`, the descriptions of the interface, and the small files that programs look for."""

import json
from asyncio import to_thread
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from barograph.discovery.deprecation import Deprecations
from barograph.discovery.files import (
    GPT_PATH,
    INDEX_PATH,
    LLMS_FULL_PATH,
    LLMS_PATH,
    OPENAPI_PATH,
    ROBOTS_PATH,
    SECURITY_PATH,
    SKILL_PATH,
    robots_text,
    security_text,
    service_links,
    skill_text,
)
from barograph.discovery.gpt_actions import gpt_schema
from barograph.discovery.index import Index
from barograph.discovery.llms import llms_full_text, llms_text
from barograph.discovery.openapi import openapi_schema
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.documents import JSON, Document, Headers
from barograph.kit.http import ApiRouter, DocumentResponse

TEXT = b"text/plain; charset=utf-8"
MARKDOWN = b"text/markdown; charset=utf-8"
KEEP = b"public, max-age=300, stale-while-revalidate=60"
"""They change with a new version of the service, and nobody should act on the last one for long."""

Described = Mapping[str, Document]
"""Descriptions by path."""


class Descriptions:
    """The descriptions of an application: made when somebody asks first, and once for all."""

    def __init__(self, make: Callable[[Starlette], Described]) -> None:
        """`make` may take long: it runs in a thread of its own, and nobody else waits for it."""
        self._make = make
        self._made: Described | None = None
        self._making: SingleFlight[str, Described] = SingleFlight()

    async def of(self, app: Starlette) -> Described:
        """Every description of this application, whose routes must all be there."""
        if self._made is None:
            self._made = await self._making.do("", partial(to_thread, self._make, app))
        return self._made


def discovery_routes(
    base_url: str,
    index: Document,
    described: Descriptions,
    clock: Clock,
    *,
    security_contact: str = "",
) -> ApiRouter:
    """The routes of everything that describes the service."""
    router = ApiRouter(tags=["discovery"])

    @router.get(
        INDEX_PATH,
        response_model=Index,
        summary="What there is to read",
        operation_id="getIndex",
    )
    async def read_index(_: Request) -> DocumentResponse:
        return DocumentResponse(index, clock())

    @router.get(OPENAPI_PATH)
    @router.get(GPT_PATH)
    @router.get(LLMS_PATH)
    @router.get(LLMS_FULL_PATH)
    async def read_description(request: Request) -> DocumentResponse:
        found = await described.of(request.app)
        return DocumentResponse(found[request.scope["path"]], clock())

    robots = _text(robots_text(base_url))
    skill = _text(skill_text(base_url), MARKDOWN)

    @router.get(SKILL_PATH)
    async def read_skill(_: Request) -> DocumentResponse:
        return DocumentResponse(skill, clock())

    @router.get(ROBOTS_PATH)
    async def read_robots(_: Request) -> DocumentResponse:
        return DocumentResponse(robots, clock())

    @router.get(SECURITY_PATH)
    async def read_security(_: Request) -> DocumentResponse:
        if not security_contact:
            raise HTTPException(404)
        now = clock()
        return DocumentResponse(_text(security_text(security_contact, base_url, now)), now)

    return router


def descriptions(app: Starlette, base_url: str, deprecations: Deprecations) -> Described:
    """Every description of an application's interface, by its path."""
    schema = openapi_schema(app, base_url, deprecations)
    return {
        OPENAPI_PATH: _text(_encoded(schema), JSON, service_links(base_url)),
        GPT_PATH: _text(_encoded(gpt_schema(schema)), JSON),
        LLMS_PATH: _text(llms_text(schema)),
        LLMS_FULL_PATH: _text(llms_full_text(schema)),
    }


def _encoded(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _text(text: str, content_type: bytes = TEXT, fields: Headers | None = None) -> Document:
    return Document(
        text.encode(), content_type=content_type, cache_control=KEEP, fields=fields, compress=True
    )

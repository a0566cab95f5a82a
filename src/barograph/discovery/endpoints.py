"""`/api/agent`, the descriptions of the interface, and the small files that programs look for."""

import json
from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException

from barograph.discovery.deprecation import Deprecations
from barograph.discovery.gpt import gpt_schema
from barograph.discovery.index import Index
from barograph.discovery.links import service_links
from barograph.discovery.llms import llms_full_text, llms_text
from barograph.discovery.openapi import openapi_schema
from barograph.discovery.paths import (
    GPT_PATH,
    INDEX_PATH,
    LLMS_FULL_PATH,
    LLMS_PATH,
    OPENAPI_PATH,
    ROBOTS_PATH,
    SECURITY_PATH,
)
from barograph.discovery.well_known import robots_text, security_text
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse

TEXT = b"text/plain; charset=utf-8"


def discovery_routes(
    base_url: str,
    index: Document,
    clock: Clock,
    *,
    security_contact: str = "",
    deprecations: Deprecations | None = None,
) -> APIRouter:
    """The routes of everything that describes the service."""
    router = APIRouter(tags=["discovery"])

    @router.get(
        INDEX_PATH,
        response_model=Index,
        summary="What there is to read",
        operation_id="getIndex",
    )
    async def read_index() -> DocumentResponse:
        return DocumentResponse(index, clock())

    described: dict[str, Document] = {}

    @router.get(OPENAPI_PATH, include_in_schema=False)
    @router.get(GPT_PATH, include_in_schema=False)
    @router.get(LLMS_PATH, include_in_schema=False)
    @router.get(LLMS_FULL_PATH, include_in_schema=False)
    async def read_description(request: Request) -> DocumentResponse:
        if not described:  # once all routes are there, and only when somebody asks
            # A quarter of a second, in which nobody else shall wait.
            made = await to_thread(descriptions, request.app, base_url, deprecations or {})
            described.update(made)
        return DocumentResponse(described[request.scope["path"]], clock())

    robots = _text(robots_text(base_url))

    @router.get(ROBOTS_PATH, include_in_schema=False)
    async def read_robots() -> DocumentResponse:
        return DocumentResponse(robots, clock())

    @router.get(SECURITY_PATH, include_in_schema=False)
    async def read_security() -> DocumentResponse:
        if not security_contact:
            raise HTTPException(404)
        now = clock()
        return DocumentResponse(_text(security_text(security_contact, base_url, now)), now)

    return router


def descriptions(app: FastAPI, base_url: str, deprecations: Deprecations) -> Mapping[str, Document]:
    """Every description of an application's interface, by its path."""
    schema = openapi_schema(app, base_url, deprecations)
    return {
        OPENAPI_PATH: Document(_encoded(schema), fields=service_links(base_url)),
        GPT_PATH: Document(_encoded(gpt_schema(schema))),
        LLMS_PATH: _text(llms_text(schema)),
        LLMS_FULL_PATH: _text(llms_full_text(schema)),
    }


def _encoded(schema: dict[str, Any]) -> bytes:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()


def _text(text: str) -> Document:
    return Document(text.encode(), content_type=TEXT)

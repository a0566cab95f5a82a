"""`/api/agent` and `/openapi.json`."""

import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi

from barograph.discovery.index import INDEX_PATH, Index
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse
from barograph.notice import NOTICE

INTERFACE_VERSION = "1.0.0"
OPENAPI_PATH = "/openapi.json"
BEARER = "bearer"
ENTITLED = "entitled"
"""The tag of operations for Feed subscribers."""


def discovery_routes(base_url: str, index: Document, clock: Clock) -> APIRouter:
    """The routes of the index and of the interface description."""
    router = APIRouter(tags=["discovery"])
    description: list[Document] = []

    @router.get(
        INDEX_PATH,
        response_model=Index,
        summary="What there is to read",
        operation_id="getIndex",
    )
    async def read_index() -> DocumentResponse:
        return DocumentResponse(index, clock())

    @router.get(OPENAPI_PATH, include_in_schema=False)
    async def read_openapi(request: Request) -> DocumentResponse:
        if not description:
            schema = openapi_schema(request.app, base_url)
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            description.append(Document(text.encode()))
        return DocumentResponse(description[0], clock())

    return router


def openapi_schema(app: FastAPI, base_url: str) -> dict[str, Any]:
    """Describe the interface, without the framework's own 422.

    It never occurs here, because every parameter is read by hand.
    """
    schema = get_openapi(
        title="Barograph",
        version=INTERFACE_VERSION,
        description=f"Crypto market intelligence, free and without a key. {NOTICE}",
        routes=app.routes,
        servers=[{"url": base_url}],
    )
    schema["components"]["securitySchemes"] = {BEARER: _BEARER}
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            if ENTITLED in operation["tags"]:
                operation["security"] = [{BEARER: []}]
    return schema


_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An access token of the identity provider, of a user with an active Feed.",
}

"""`/api/agent/guides`: the whole catalog."""

from fastapi import APIRouter

from barograph.guides.documents import GUIDES_PATH, Guides
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse
from barograph.kit.wire import refusal


def guide_routes(document: Document, clock: Clock) -> APIRouter:
    """The route of the rendered catalog."""
    router = APIRouter(tags=["guides"])

    @router.get(
        GUIDES_PATH,
        response_model=Guides,
        summary="Catalog of paid trading guides with their prices",
        operation_id="getGuides",
        responses={500: _SERVER_ERROR},
    )
    async def guides() -> DocumentResponse:
        return DocumentResponse(document, clock())

    return router


_SERVER_ERROR = refusal("Not expected: the catalog is read at start.")

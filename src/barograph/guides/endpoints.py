"""`/api/agent/guides`: the whole catalog."""

from starlette.requests import Request

from barograph.guides.documents import GUIDES_PATH, Guides
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import operation


def guide_routes(document: Document, clock: Clock) -> ApiRouter:
    """The route of the catalog that was rendered as `document`."""
    router = ApiRouter(tags=["guides"])

    @router.get(
        GUIDES_PATH,
        **operation(
            "getGuides",
            Guides,
            responses={500: "Should not happen: the catalog is loaded at startup."},
        ),
    )
    async def guides(_: Request) -> DocumentResponse:
        return DocumentResponse(document, clock())

    return router

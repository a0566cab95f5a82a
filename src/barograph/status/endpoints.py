"""`/api/status`, which always answers 200."""

from starlette.requests import Request

from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.kit.wire import operation
from barograph.status.reader import StatusReader
from barograph.status.rules import ServiceStatus

STATUS_PATH = "/api/status"
KEEP_MS = 2 * SECOND
"""How long caches may keep a status."""


def status_routes(board: Board, reader: StatusReader) -> ApiRouter:
    """The route of `/api/status`."""
    router = ApiRouter(tags=["status"])

    @router.get(STATUS_PATH, **operation("getStatus", ServiceStatus))
    async def status(_: Request) -> DocumentResponse:
        now = board.clock()
        body = reader.status(board, now).encode()
        return DocumentResponse(Document(body, until=now + KEEP_MS, modified=now), now)

    return router

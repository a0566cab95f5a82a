"""`/api/status`: always 200, whatever it has to say."""

from fastapi import APIRouter

from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.kit.wire import operation
from barograph.status.reader import StatusReader
from barograph.status.wire import ServiceStatus

STATUS_PATH = "/api/status"
KEEP_MS = 2 * SECOND
"""A status that caches could keep for long would be the one that lies."""


def status_routes(board: Board, reader: StatusReader) -> APIRouter:
    """The route of `/api/status`."""
    router = APIRouter(tags=["status"])

    @router.get(STATUS_PATH, **operation("getStatus", ServiceStatus))
    async def status() -> DocumentResponse:
        now = board.clock()
        body = reader.status(board, now).encode()
        return DocumentResponse(Document(body, until=now + KEEP_MS, modified=now), now)

    return router

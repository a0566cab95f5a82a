"""`/api/agent/briefs`: parse the limit, answer from the board."""

from fastapi import APIRouter, Request

from barograph.board.board import Board
from barograph.briefs.documents import (
    BRIEFS_PATH,
    DEFAULT,
    HIGHEST,
    LOWEST,
    BriefList,
    limit_from_query,
)
from barograph.briefs.reader import BriefsReader
from barograph.kit.http import DocumentResponse
from barograph.kit.wire import refusal


def brief_routes(board: Board, reader: BriefsReader) -> APIRouter:
    """The route of `/api/agent/briefs`."""
    router = APIRouter(tags=["briefs"])

    @router.get(
        BRIEFS_PATH,
        response_model=BriefList,
        summary="Analysis written from the record, newest first",
        operation_id="getBriefs",
        responses={500: _UNREADABLE},
        openapi_extra={"parameters": [_LIMIT_PARAMETER]},
    )
    async def briefs(request: Request) -> DocumentResponse:
        limit = limit_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(reader.document(board, limit, now), now)

    return router


_UNREADABLE = refusal("Database error.")
_LIMIT_PARAMETER = {
    "name": "limit",
    "in": "query",
    "required": False,
    "description": "How many briefs; brought into the range, the default for no integer.",
    "schema": {"type": "integer", "minimum": LOWEST, "maximum": HIGHEST, "default": DEFAULT},
    "example": 15,
}

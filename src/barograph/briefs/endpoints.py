"""`/api/agent/briefs`: parse the limit, answer from the board."""

from starlette.requests import Request

from barograph.board.board import Board
from barograph.briefs.documents import (
    BRIEFS_PATH,
    DEFAULT_BRIEFS,
    MAX_BRIEFS,
    MIN_BRIEFS,
    BriefList,
    limit_from_query,
)
from barograph.briefs.reader import BriefsReader
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import operation, parameter


def brief_routes(board: Board, reader: BriefsReader) -> ApiRouter:
    """The route of `/api/agent/briefs`."""
    router = ApiRouter(tags=["briefs"])

    @router.get(
        BRIEFS_PATH, **operation("getBriefs", BriefList, _LIMIT, responses={500: "Database error."})
    )
    async def briefs(request: Request) -> DocumentResponse:
        limit = limit_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(reader.document(board, limit, now), now)

    return router


_LIMIT = parameter(
    "query",
    "limit",
    "Number of briefs, clamped to the range. Anything but an integer means the default.",
    type="integer",
    minimum=MIN_BRIEFS,
    maximum=MAX_BRIEFS,
    default=DEFAULT_BRIEFS,
    example=15,
)

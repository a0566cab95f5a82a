"""`/api/status`: always 200, whatever it has to say."""

from fastapi import APIRouter

from barograph import __version__
from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.markets.feeds import (
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
)
from barograph.markets.view import Bounds
from barograph.status.rules import Observation, assess
from barograph.status.wire import Status

STATUS_PATH = "/api/status"
KEEP_MS = 2 * SECOND
"""A status that caches could keep for long would be the one that lies."""


def status_routes(board: Board, bounds: Bounds) -> APIRouter:
    """The route of `/api/status`."""
    router = APIRouter(tags=["status"])
    started_at = board.clock()

    @router.get(
        STATUS_PATH,
        response_model=Status,
        summary="Health of the market feed and of the API",
        operation_id="getStatus",
    )
    async def status() -> DocumentResponse:
        now = board.clock()
        seen = Observation(
            now=now,
            started_at=started_at,
            version=__version__,
            bounds=bounds,
            polled_at=board.polled_at,
            perpetuals=board.latest(PERPETUALS),
            shares=board.latest(LONG_ACCOUNTS),
            liquidations=board.latest(LIQUIDATIONS),
            health=board.latest(EXCHANGE_HEALTH),
        )
        document = Document(assess(seen).encode(), until=now + KEEP_MS, modified=now)
        return DocumentResponse(document, now)

    return router

"""Health checks for a load balancer: whether the process is alive, and ready for requests.

Both answer from memory. A stale exchange or a lost database doesn't make a host unready: it must
still answer with the last data, the status, or 502.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.kit.http import ApiRouter
from barograph.markets.view import EXCHANGE_HEALTH

ALIVE_PATH = "/healthz"
READY_PATH = "/readyz"
HEALTH_PATHS = (ALIVE_PATH, READY_PATH)


def health_routes(board: Board, is_stopping: Callable[[], bool]) -> ApiRouter:
    """The routes; they are not part of the described API."""
    router = ApiRouter()

    @router.get(ALIVE_PATH)
    async def alive(_: Request) -> Response:
        return _answer(200, "alive")

    @router.get(READY_PATH)
    async def ready(_: Request) -> Response:
        if is_stopping():
            return _answer(503, "stopping")
        # The collector publishes this feed with every reading, even one that failed.
        if board.latest(EXCHANGE_HEALTH) is None:
            return _answer(503, "starting")
        return _answer(200, "ready")

    return router


def _answer(status: int, word: str) -> Response:
    body = f'{{"status":"{word}"}}'
    return Response(body, status, {"cache-control": "no-store"}, "application/json")

"""A worker's life: it reads the board, runs background tasks and closes its parts at the end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from barograph.board.board import Board
from barograph.kit.database import DatabaseUnavailable

log = logging.getLogger(__name__)

Task = Callable[[], Coroutine[Any, Any, None]]
Closing = Callable[[], Awaitable[None]]


@asynccontextmanager
async def lifespan(
    board: Board, tasks: Sequence[Task], closings: Sequence[Closing]
) -> AsyncIterator[None]:
    """Run a worker's background tasks from its start to its end, and then close its parts."""
    try:
        await board.refresh()
    except DatabaseUnavailable as error:
        log.warning("starting without data", extra={"reason": str(error)})
    running = [asyncio.create_task(task()) for task in tasks]
    for task in running:
        task.add_done_callback(_log_end)
    yield
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    for close in closings:
        await close()


def _log_end(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        log.critical("background task ended", exc_info=task.exception())

"""Times out without cancelling."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_left: set["asyncio.Task[Any]"] = set()
"""Work that timed out: asyncio drops a task that nothing references."""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Wait for some work at most `seconds`; after that it goes on in the background.

    Cancelling a request can cost the client's pool a connection for good. Work that times out here
    needs timeouts of its own.

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            _left.add(task)
            task.add_done_callback(_forget)
    if not done:
        raise TimeoutError
    return task.result()


def _forget(task: "asyncio.Task[Any]") -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it

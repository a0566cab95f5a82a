"""Waiting for something only so long, without breaking it off."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_left: set["asyncio.Task[Any]"] = set()
"""Work that nobody waits for any more: somebody must hold it until it ends."""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Wait for some work for so long, and leave it to end by itself after that.

    A request that is cancelled can cost the client's pool a connection for good; one that is let
    go ends by its own timeouts, which it must have.

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
        task.exception()  # seen, though nobody asks for it

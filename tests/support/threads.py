"""Servers in a thread of their own, for clients that block."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 30.0


@contextmanager
def in_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run an async context manager in a thread."""
    entered: Future[T] = Future()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with context as value:
            entered.set_result(value)
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(run)
        yield entered.result(PATIENCE)
        loop.call_soon_threadsafe(stop.set)
        ended.result(PATIENCE)

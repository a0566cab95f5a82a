"""Servers in a thread of their own, for clients that block."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
PATIENCE = 30.0


class InThread(Generic[T]):
    """Runs an async context manager in a thread; `value` is what it yields."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._entered: Future[T] = Future()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(context,))
        self._thread.start()
        self.value = self._entered.result(PATIENCE)

    def _run(self, context: AbstractAsyncContextManager[T]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(context))

    async def _serve(self, context: AbstractAsyncContextManager[T]) -> None:
        async with context as value:
            self._entered.set_result(value)
            await self._stop.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

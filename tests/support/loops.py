"""One event loop for all tests of a process."""

import asyncio


class OneLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Gives every `asyncio.run` the same loop: it saves time, and connections belong to a loop.

    While that loop runs, another thread gets a loop of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shared = _LastingLoop()

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return super().new_event_loop() if self._shared.is_running() else self._shared


class _LastingLoop(asyncio.SelectorEventLoop):
    """A loop that `asyncio.run` does not end; it still cancels the tasks that are left."""

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self) -> None:
        pass

    def close(self) -> None:
        pass

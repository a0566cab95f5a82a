"""Detects client disconnects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from barograph.kit.http import Receive


@asynccontextmanager
async def watch_disconnect(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Yield a function that tells whether the client has disconnected.

    Servers report a disconnect only to a pending `receive`. Polling it once without waiting, as a
    framework's `is_disconnected` does, returns the request itself and misses what follows.
    """
    async with disconnecting(receive) as gone:

        def is_disconnected() -> bool:
            if not gone.done():
                return False
            # If `receive` itself failed, the connection is gone.
            return gone.cancelled() or gone.exception() is not None or gone.result()

        yield is_disconnected


@asynccontextmanager
async def disconnecting(receive: Receive) -> AsyncIterator["asyncio.Future[bool]"]:
    """Yield a future that ends with the client's next message, which says that it disconnected."""
    listening = asyncio.ensure_future(_disconnects(receive))
    try:
        yield listening
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _disconnects(receive: Receive) -> bool:
    """Read the request to its end, and then wait for the next message."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            message = await receive()
            break
    return bool(message["type"] == "http.disconnect")

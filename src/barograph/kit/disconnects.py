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
    listening = asyncio.ensure_future(next_disconnect(receive))

    def is_disconnected() -> bool:
        if not listening.done():
            return False
        # If `receive` itself failed, the connection is gone.
        return listening.cancelled() or listening.exception() is not None or listening.result()

    try:
        yield is_disconnected
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def next_disconnect(receive: Receive) -> bool:
    """Read the request to its end, wait for the next message, and tell if it is a disconnect."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            message = await receive()
            break
    return bool(message["type"] == "http.disconnect")

"""Whether somebody who asked is still there to get the answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from barograph.kit.http import Receive


@asynccontextmanager
async def presence(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Listen while a request is served; what it yields tells whether its caller has left.

    Servers say so only to who waits for it: asking once and not waiting, as a framework's
    `is_disconnected` does, hears of the request itself first and of nothing after that.
    """
    listening = asyncio.ensure_future(_leaves(receive))

    def is_gone() -> bool:
        if not listening.done():
            return False
        # A request that cannot even be listened to has nobody at its other end.
        return listening.cancelled() or listening.exception() is not None or listening.result()

    try:
        yield is_gone
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _leaves(receive: Receive) -> bool:
    """Hear the request to its end, and then whatever comes next."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body", False):
            message = await receive()
            break
    return bool(message["type"] == "http.disconnect")

"""An exchange that answers what a test says, on a clock that only a test and pauses move."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Generic, TypeVar

import httpx2

from barograph.errors import UpstreamError
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings

E = TypeVar("E")


class ScriptedVenue(Generic[E]):
    """The adapter of a venue, and the venue: a subclass answers its requests."""

    def __init__(
        self, adapter: Callable[..., E], now: int, settings: Settings | None = None, **parts: Any
    ) -> None:
        self.now = now
        self.pauses: list[float] = []
        self.exchange = adapter(
            settings or Settings(),
            clock=lambda: self.now,
            transport=httpx2.MockTransport(self._answer),
            sleep=self._sleep,
            random=Random(1),
            **parts,
        )

    def _answer(self, request: httpx2.Request) -> Any:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += round(seconds * SECOND)

    def run(self, call: Callable[[E], Awaitable[Any]]) -> Any:
        """What a call returns or raises."""

        async def work() -> Any:
            try:
                return await call(self.exchange)
            except UpstreamError as error:
                return error

        return asyncio.run(work())

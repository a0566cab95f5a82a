"""What the adapters of all exchanges have in common."""

import asyncio
from random import Random
from typing import Required, TypedDict

import httpx2

from barograph.kit.clock import Clock
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.markets.venues import Venue, source_of
from barograph.settings import REQUEST_SECONDS, Settings
from barograph.upstream.http import Sleep
from barograph.upstream.venue_client import BREAKER_SECONDS, ReadingTimes, VenueClient
from barograph.upstream.venue_stream import PING_SECONDS


class Parts(TypedDict, total=False):
    """What an adapter is made of; tests replace all of it."""

    clock: Required[Clock]
    transport: httpx2.AsyncBaseTransport | None
    sleep: Sleep
    random: Random
    metrics: Metrics
    seconds: float
    breaker_seconds: float
    ping_seconds: float


class VenueAdapter:
    """An exchange with its client and the times of its readings."""

    venue: Venue
    client: type[VenueClient] = VenueClient
    _rest: VenueClient

    def __init__(self, settings: Settings, url: str, parts: Parts) -> None:
        self.source = source_of(self.venue.name, settings.exchange_source)
        self._settings = settings
        self._clock = parts["clock"]
        self._sleep = parts.get("sleep", asyncio.sleep)
        self._random = parts.get("random", Random())
        self._metrics = parts.get("metrics", NO_METRICS)
        self._ping_seconds = parts.get("ping_seconds", PING_SECONDS)
        self._times = ReadingTimes(self._clock, settings.feed_max_age_seconds)
        self._rest = self.client(
            self.venue.name,
            url,
            settings,
            self._metrics,
            clock=self._clock,
            transport=parts.get("transport"),
            sleep=self._sleep,
            random=self._random,
            seconds=parts.get("seconds", REQUEST_SECONDS),
            breaker_seconds=parts.get("breaker_seconds", BREAKER_SECONDS),
        )

    async def keep_up(self) -> None:
        """Wait: one call reads everything."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Release every connection."""
        await self._rest.close()

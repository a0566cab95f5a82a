"""Listening to liquidations without a gap while contracts are added and removed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from barograph.collector.venue_reading import OVERLAP_POLLS, Listening
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.records import Liquidation, LongAccounts, Perpetuals
from barograph.venues.registry import BYBIT, VENUES
from barograph.venues.spans import WatchedSpans

POLL = 0.001


class Stream:
    """One subscription, which reports only while it is open."""

    def __init__(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        self.contracts = list(contracts)
        self.is_open, self.is_closing = True, False
        self._watcher = watcher

    def proves(self, start: int, end: int) -> None:
        if self.is_open:
            self._watcher.watched(start, end)


class Market:
    """An exchange whose subscriptions are scripted, and who listens to it."""

    venue = VENUES[BYBIT]

    def __init__(self) -> None:
        self.listed = ["BTCUSDT"]
        self.streams: list[Stream] = []
        self.close_seconds = 0.0
        self.spans = WatchedSpans()

    async def perpetuals(self) -> Perpetuals:
        raise AssertionError

    async def keep_up(self) -> None:
        raise AssertionError

    async def long_accounts(self, contract: str) -> LongAccounts:
        raise AssertionError

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        stream = Stream(contracts, watcher)
        self.streams.append(stream)
        try:
            await asyncio.Event().wait()
        finally:
            stream.is_closing = True
            await asyncio.sleep(self.close_seconds)
            stream.is_open = False

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        raise AssertionError

    def watched(self, start: int, end: int) -> None:
        self.spans.add(start, end)

    async def until(self, expected: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not expected():  # noqa: ASYNC110 -- what is expected is said by no event
                await asyncio.sleep(POLL)

    async def polls(self, count: int) -> None:
        for _ in range(count):
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=POLL)


@asynccontextmanager
async def listened_market() -> AsyncIterator[Market]:
    market = Market()
    listening = Listening(market, market, lambda: market.listed, POLL)
    running = asyncio.create_task(listening.run())
    try:
        await market.until(lambda: market.streams)
        yield market
    finally:
        running.cancel()
        await asyncio.wait([running])
    if not market.close_seconds:
        assert not any(stream.is_open for stream in market.streams)


@pytest.mark.outcome(
    "The exchange lists or removes a contract",
    "The collector opens new connections, and closes the old ones once there is no gap.",
)
async def test_old_connections_stay_open_until_they_proved_the_time_before_the_new_ones() -> None:
    async with listened_market() as market:
        market.streams[0].proves(0, 100)
        market.listed = ["BTCUSDT", "NEWUSDT"]
        await market.until(lambda: len(market.streams) == 2)
        old, new = market.streams
        assert new.contracts == market.listed
        await market.polls(3)
        new.proves(105, 110)
        await market.polls(3)
        old.proves(100, 120)
        await market.until(lambda: not old.is_open)
        new.proves(110, 200)

    assert market.spans.within(0, 200) == [(0, 200)]


async def test_old_connections_that_died_are_closed_once_the_new_ones_watch() -> None:
    async with listened_market() as market:
        market.listed = ["NEWUSDT"]
        await market.until(lambda: len(market.streams) == 2)
        market.streams[1].proves(105, 110)
        await market.until(lambda: not market.streams[0].is_open)
        assert market.streams[1].is_open


async def test_the_new_connections_end_too_if_the_collector_stops_while_the_old_ones_close() -> (
    None
):
    async with listened_market() as market:
        market.listed, market.close_seconds = ["NEWUSDT"], 0.2
        await market.until(lambda: len(market.streams) == 2)
        market.streams[1].proves(105, 110)
        await market.until(lambda: market.streams[0].is_closing)
        assert market.streams[0].is_open
    assert all(stream.is_closing for stream in market.streams)


async def test_new_connections_that_never_watch_do_not_end_the_old_ones() -> None:
    async with listened_market() as market:
        market.listed = ["NEWUSDT"]
        await market.until(lambda: len(market.streams) == 2)
        await market.polls(OVERLAP_POLLS)
        await market.until(lambda: not market.streams[1].is_open)
        assert market.streams[0].is_open
        await market.until(lambda: len(market.streams) == 3)
        assert sum(stream.is_open for stream in market.streams) == 2

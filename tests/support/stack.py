"""Exchange, collector and web side together on loopback, in one process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from barograph.collector.leader import Collector
from barograph.kit.clock import system_clock
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.store import record_rows
from barograph.settings import Settings
from barograph.upstream.bybit import BybitExchange
from barograph.web.app import create_app
from barograph_demo.servers.exchange import running_exchange
from barograph_demo.servers.faults import ExchangeFaults
from barograph_demo.world.world import World

DATA_PATHS = (
    "/api/agent/derivatives?symbol=BTC",
    "/api/agent/market",
    "/api/agent/market-state",
)

RESTLESS = 10 * MINUTE

QUICK: Any = {"seconds": 2, "breaker_seconds": 0.2}
"""The timeout and the pause of an adapter that meets faults."""


class ShiftedClock:
    """The real clock, which a test may move ahead."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead


class Stack:
    """A running service whose exchange can be broken."""

    def __init__(
        self,
        faults: ExchangeFaults,
        clock: ShiftedClock,
        client: httpx2.AsyncClient,
        database: SQLiteDatabase,
    ) -> None:
        self.faults = faults
        self.clock = clock
        self.database = database
        self._client = client

    async def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Send a request; a response that takes a minute is a hang."""
        response = await asyncio.wait_for(self._client.get(path), 60)
        return response.status_code, response.json()

    async def until(self, seen: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for a condition, and check all data paths meanwhile."""
        deadline = asyncio.get_running_loop().time() + 180
        while not await seen():
            assert asyncio.get_running_loop().time() < deadline, f"never seen: {what}"
            for path in DATA_PATHS:
                await self.get(path)
            await asyncio.sleep(0.3)

    async def until_data(self, status: int) -> None:
        async def seen() -> bool:
            return all([(await self.get(path))[0] == status for path in DATA_PATHS])

        await self.until(seen, f"{status} on every data path")


@asynccontextmanager
async def running_stack(folder: Path, ping_seconds: float = 0.3) -> AsyncIterator[Stack]:
    """Run everything with short limits and a fully covered day."""
    clock = ShiftedClock()
    world = _world(clock() // HOUR * HOUR)
    faults = ExchangeFaults()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(running_exchange(world, clock, faults))
        settings = stack_settings(folder, address.url)
        database = SQLiteDatabase(settings.database_path)
        stack.push_async_callback(database.close)
        await upgrade(database, packaged_migrations(), clock)
        await _watch_yesterday(database, clock())
        exchange = BybitExchange(
            settings, clock=clock, listing_seconds=1, ping_seconds=ping_seconds, **QUICK
        )
        stack.push_async_callback(exchange.close)
        app, _, board = create_app(
            settings, database, SQLiteDatabase(settings.history_path), clock=clock
        )
        collector = Collector(settings, [exchange], database, clock=clock, share_seconds=0.2)
        for work in (board.follow(), collector.run()):
            task = asyncio.create_task(work)
            stack.push_async_callback(_cancelled, task)
        client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://barograph.example"
        )
        yield Stack(faults, clock, await stack.enter_async_context(client), database)


def stack_settings(folder: Path, rest_url: str, **overrides: Any) -> Settings:
    return Settings.model_validate(
        {
            "data": folder,
            "base_url": "http://barograph.example",
            "exchange_rest_url": rest_url,
            "exchange_source": "simulated exchange (demo data)",
            "poll_seconds": 0.5,
            "feed_max_age_seconds": 5,
            **overrides,
        }
    )


@cache
def _world(hour: int) -> World:
    """A world per hour in which liquidations happen soon; with many seeds there is none for half an
    hour.
    """
    worlds = (World(seed, hour - 3 * DAY) for seed in count(7))
    return next(each for each in worlds if _is_restless(each, hour))


def _is_restless(world: World, hour: int) -> bool:
    parts = range(hour, hour + 2 * HOUR, RESTLESS)
    return all(len(world.liquidations(each, each + RESTLESS)) > 1 for each in parts)


async def _watch_yesterday(database: SQLiteDatabase, now: int) -> None:
    await database.write(lambda tx: record_rows(tx, "bybit", watched=[(now - DAY, now)]))


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()

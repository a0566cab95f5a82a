"""The simulated venues, their adapters, the judge and the web side in one process.

Everything follows a manual clock: a test lets time pass and takes the readings that are due.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from barograph.board.board import Board
from barograph.collector.app import ADAPTERS
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.errors import UpstreamError
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.markets.frames import FRAME_STEP
from barograph.settings import Settings
from barograph.venue_names import VENUE_NAMES
from barograph.venues.binance.stream import LIQUIDATIONS, decode_liquidation
from barograph.venues.bybit.exchange import ANNOUNCEMENT_SECONDS
from barograph.venues.bybit.messages import Batch, decode_message
from barograph.venues.gate.exchange import GateExchange
from barograph.venues.kit.adapter import VenueAdapter
from barograph.venues.records import Liquidation, Perpetuals
from barograph.venues.registry import BINANCE, BYBIT
from barograph.web.app import create_app
from barograph_demo.configuration import venue_settings
from barograph_demo.servers.binance_stream import BinanceStream
from barograph_demo.servers.faults import VenueFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.registry import VENUE_SERVERS
from barograph_demo.servers.stream import Stream
from barograph_demo.world.venues import ASTER, VenueMarket
from barograph_demo.world.world import World
from support.clock import START, HandClock

NAMES = tuple(name for name in VENUE_NAMES if name in VENUE_SERVERS)
SWEEPING = (BINANCE, ASTER)
"""The venues whose open interest is read in turn."""

QUICK: Any = {"seconds": 2, "breaker_seconds": 0.2}
"""The timeout and the pause of an adapter that meets faults."""

SWEEP = 200
"""More calls than Binance has contracts; those that are not due are not made."""


class Turns:
    """Pauses of one task, which end when a test allows it. Other tasks don't pause."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self._left = 0
        self._allowed, self._pausing = asyncio.Event(), asyncio.Event()

    async def sleep(self, _seconds: float) -> None:
        if asyncio.current_task() is not self.task:
            return
        if self._left == 0:
            self._pausing.set()
            await self._allowed.wait()
            self._allowed.clear()
        self._left -= 1

    async def take(self, count: int) -> None:
        """Let the task run until it has paused so many times."""
        self._left = count
        self._pausing.clear()
        self._allowed.set()
        await self._pausing.wait()


class SentByBybit(Stream):
    """What Bybit's stream sends, without a connection."""

    _nobody_hears = False

    def _send(self, _topic: str, text: str) -> None:
        self.sent = [*getattr(self, "sent", ()), text.encode()]


class SentByBinance(BinanceStream):
    """What Binance's stream sends, without a connection."""

    _nobody_hears = False
    _send = SentByBybit._send  # type: ignore[assignment]


class VenueStack:
    """The venues that can be broken, and a service that reads them."""

    def __init__(
        self,
        settings: Settings,
        clock: HandClock,
        faults: Mapping[str, VenueFaults],
        world: World,
        seconds: float,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.faults = faults
        self.turns = {venue: Turns() for venue in settings.venue_names if venue in SWEEPING}
        self._read_at = clock()
        self.exchanges: dict[str, VenueAdapter] = {}
        for venue in settings.venue_names:
            pause = self.turns[venue].sleep if venue in SWEEPING else _at_once
            self.exchanges[venue] = ADAPTERS[venue](
                settings, clock=clock, sleep=pause, **QUICK | {"seconds": seconds}
            )
        self._streams: dict[str, Any] = {
            BYBIT: SentByBybit(world, faults[BYBIT], clock),  # type: ignore[arg-type]
        }
        for venue in SWEEPING:
            market = FaultyMarket(VenueMarket(world, venue), faults[venue])
            self._streams[venue] = SentByBinance(market, faults[venue], clock)  # type: ignore[arg-type]
        self.database = SQLiteDatabase(settings.database_path)
        self.lease = collector_lease(self.database, clock, 300)
        self.judge = Judge(settings)
        self.board: Board
        self.client: httpx2.AsyncClient

    async def restart(self) -> None:
        """Start another collector on the same database."""
        self.judge = Judge(self.settings)
        await self.judge.load(self.database, self.clock())

    async def take_readings(self, seconds: float = 5, *, sweep: bool = False) -> None:
        """Let time pass and read every venue once, with all open interest if `sweep`."""
        self.clock.pass_seconds(seconds)
        await self.lease.renew()
        for turns in self.turns.values() if sweep else ():
            await turns.take(SWEEP)
        for venue, exchange in self.exchanges.items():
            try:
                reading = await exchange.perpetuals()
            except UpstreamError as error:
                found = self.judge.conclude_failure(venue, error, self.clock())
            else:
                await self._hear(venue, reading)
                found = self.judge.conclude(reading, self.clock())
            await self._store(found)
        self._read_at = self.clock()
        await self.board.refresh()

    async def minute(self) -> None:
        """Let a minute pass with three readings of every venue, and all open interest."""
        for number in range(3):
            await self.take_readings(20, sweep=number == 0)

    async def get(self, target: str) -> tuple[int, dict[str, Any]]:
        response = await self.client.get(target)
        return response.status_code, response.json()

    async def check(self, name: str) -> str:
        """The detail of one check of `/api/status`."""
        _, status = await self.get("/api/status")
        return str(next(each["detail"] for each in status["checks"] if each["name"] == name))

    async def _store(self, found: Conclusion) -> None:
        await write_conclusions(self.database, self.lease, [found])
        self.judge.written(found)

    async def _hear(self, venue: str, reading: Perpetuals) -> None:
        """Give the judge the liquidations since the last reading, by the adapter's decoders."""
        exchange = self.exchanges[venue]
        if isinstance(exchange, GateExchange):
            names = [each.contract for each in reading.contracts]
            with suppress(UpstreamError):
                await exchange.liquidations(names, self._read_at, self.judge.of(venue))
        stream = self._streams.get(venue)
        if stream is not None:
            stream.sent = []
            stream.pump()
            known = {each.contract for each in reading.contracts}
            for data in stream.sent:
                self.judge.of(venue).liquidated(_liquidations(venue, data, known))


def _liquidations(venue: str, data: bytes, known: set[str]) -> list[Liquidation]:
    if venue == BYBIT:
        batch = decode_message(data)
        return list(batch.liquidations) if isinstance(batch, Batch) else []
    frame = msgspec.json.decode(data)
    # The stream also sends each message without its name, in the form of its other path.
    is_ours = frame.get("stream") == LIQUIDATIONS
    return decode_liquidation(msgspec.json.encode(frame["data"]), known) if is_ours else []


async def _at_once(seconds: float) -> None:
    if seconds >= ANNOUNCEMENT_SECONDS:  # not a pause within a reading
        await asyncio.Event().wait()


@asynccontextmanager
async def running_venues(
    folder: Path, seed: int = 7, *, seconds: float = 2, **overrides: Any
) -> AsyncIterator[VenueStack]:
    """Run the venues and the service; the first readings are taken."""
    clock, world = HandClock(), World(seed, START // HOUR * HOUR - 3 * DAY)
    faults = {venue: VENUE_SERVERS[venue].faults() for venue in NAMES}
    async with AsyncExitStack() as stack:
        places = {}
        for venue in NAMES:
            server = VENUE_SERVERS[venue].running(world, clock, faults[venue])
            places[venue] = (await stack.enter_async_context(server)).url.removeprefix("http://")
        given = {
            **venue_settings(places),
            "data": folder,
            "base_url": "http://barograph.example",
            "exchange_rest_url": f"http://{places[BYBIT]}",
            "exchange_source": "simulated exchange (demo data)",
            "poll_seconds": 0.5,
            "feed_max_age_seconds": 30,
            **overrides,
        }
        settings = Settings.model_validate(given)
        found = VenueStack(settings, clock, faults, world, seconds)
        stack.push_async_callback(found.database.close)
        for exchange in found.exchanges.values():
            stack.push_async_callback(exchange.close)
        await upgrade(found.database, packaged_migrations(), clock)
        await found.lease.acquire()
        app, _, found.board = create_app(
            settings, found.database, SQLiteDatabase(settings.history_path), clock=clock
        )
        found.client = await stack.enter_async_context(
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=app), base_url="http://barograph.example"
            )
        )
        for venue, turns in found.turns.items():
            turns.task = asyncio.create_task(found.exchanges[venue].keep_up())
            stack.callback(turns.task.cancel)
        await found.take_readings()
        await found.take_readings(sweep=True)
        await found.take_readings(FRAME_STEP / SECOND)  # keeps the last known sizes
        yield found

"""Carries the demo's past through the collector's own record, judge and publish functions.

What the simulated exchange said comes from `replay_glimpses`, as it would come live.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing

from barograph.board.snapshots import latest
from barograph.collector import collector_lease
from barograph.demo.world import World
from barograph.desk import Conclusion, Desk, write_conclusions
from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.feeds import PERPETUALS
from barograph.markets.records import Perpetuals
from barograph.replay_glimpses import Glimpse, glimpses
from barograph.replay_record import PastRecord
from barograph.settings import Settings

MAX_ROWS = 5_000
"""No transaction is larger: beside a huge one every small write would wait."""

FINE_MS = 2 * DAY
"""The last two days are carried in steps of five minutes, everything before by the hour."""

Databases = tuple[Database, Database]
"""The service's own and the record of stances."""

Progress = Callable[[int, int], None]
"""Told how many moments are done, and of how many."""


def moments(start: int, now: int) -> Iterator[int]:
    """The instants to carry after `start`: by the hour, then by five minutes, at last `now`."""
    at = start
    while at < now:
        step = 5 * MINUTE if at >= now - FINE_MS else HOUR
        at = min(at // step * step + step, now)
        yield at


async def replay(
    settings: Settings,
    world: World,
    databases: Databases,
    clock: Clock,
    progress: Progress,
) -> int:
    """Carry what the record lacks, up to now; return how many moments that was.

    Raises:
        ConfigurationError: a collector is at work on this record.
    """
    database, history = databases
    lease = collector_lease(settings, database, clock)
    await _lead(lease, settings)
    record = PastRecord(settings, world, database, history, lease)
    try:
        newest = await database.read(_newest)
        start = world.epoch if newest is None else newest
        past = _Past(settings, world, start)
        await past.desk.load(database, start)
        writer = _Writer(database, lease, record)
        carried = await _carry(past, writer, clock, progress)
    finally:
        await record.close()
        await lease.release()
    return carried


async def _carry(past: "_Past", writer: "_Writer", clock: Clock, progress: Progress) -> int:
    """Carry and store every moment from where the past stands; return how many there were."""
    now = clock()
    instants = list(moments(past.at, now))
    async with aclosing(glimpses(past.world, past.at, instants, clock)) as stretches:
        async for done, newest in stretches:
            for glimpse in newest:
                await writer.add(past.carry(glimpse))
                if await writer.issue(glimpse.since, glimpse.at, now):
                    await past.desk.refresh(writer.database, glimpse.at)
            progress(done, len(instants))
    await writer.flush()
    return len(instants)


async def _lead(lease: Lease, settings: Settings) -> None:
    """Take the lease, waiting for one that a killed collector left to run out.

    Raises:
        ConfigurationError: a living collector has it.
    """
    deadline = asyncio.get_running_loop().time() + settings.lease_seconds + 1
    while not await lease.acquire():
        if asyncio.get_running_loop().time() > deadline:
            raise ConfigurationError("a collector is at work on this folder: stop it first")
        await asyncio.sleep(settings.lease_seconds / 10)


class _Past:
    """The desk, looking at the exchange as it was."""

    def __init__(self, settings: Settings, world: World, start: int) -> None:
        self.world = world
        self.at = start
        self._source = settings.exchange_source
        self.desk = Desk(settings)

    def carry(self, glimpse: Glimpse) -> Conclusion:
        """Measure and judge one instant."""
        self.at = glimpse.at
        self.desk.watched(glimpse.since, glimpse.at)
        self.desk.liquidated(glimpse.liquidations)
        for share in glimpse.shares:
            self.desk.sampled(share)
        reading = Perpetuals(glimpse.at, self._source, glimpse.perpetuals)
        conclusion = self.desk.conclude(reading)
        self.desk.written(conclusion)
        return conclusion


class _Writer:
    """Stores conclusions, as many in one transaction as may be."""

    def __init__(self, database: Database, lease: Lease, record: PastRecord) -> None:
        self.database = database
        self._lease = lease
        self._record = record
        self._batch: list[Conclusion] = []
        self._rows = 0

    async def add(self, conclusion: Conclusion) -> None:
        if self._rows + conclusion.row_count > MAX_ROWS:
            await self.flush()
        self._batch.append(conclusion)
        self._rows += conclusion.row_count

    async def issue(self, since: int, at: int, now: int) -> bool:
        """Let stances be issued when something came that they rest on; tell whether it did."""
        if not self._record.is_due(since, at, now):
            return False
        await self.flush()
        await self._record.issue(since, at)
        return True

    async def flush(self) -> None:
        await self._lease.renew()
        await write_conclusions(self.database, self._lease, self._batch)
        self._batch, self._rows = [], 0


async def _newest(tx: Transaction) -> int | None:
    """When the last published reading was taken."""
    newest = await latest(tx, PERPETUALS)
    return None if newest is None else newest.as_of

"""Carries the demo's past through the collector's own record, judge and publish functions.

The simulated exchange answers in process, with the clock turned back; its answers go through the
same decoders as those of a real one.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing, contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import get_context, resource_tracker
from typing import NamedTuple

from barograph.board.snapshots import latest
from barograph.collector import collector_lease
from barograph.demo.batches import liquidation_messages
from barograph.demo.rest import answer
from barograph.demo.world import World
from barograph.desk import Conclusion, Desk, write_conclusions
from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.process import die_with_parent
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.feeds import PERPETUALS
from barograph.markets.records import (
    MAJORS,
    Liquidation,
    LongAccounts,
    Perpetual,
    Perpetuals,
)
from barograph.replay_record import PastRecord
from barograph.settings import Settings
from barograph.upstream.bybit.decode import (
    Instrument,
    decode_instruments,
    decode_long_accounts,
    decode_tickers,
)
from barograph.upstream.bybit.envelope import Reply, open_envelope
from barograph.upstream.bybit.messages import Batch, decode_message

MAX_ROWS = 5_000
"""No transaction is larger: beside a huge one every small write would wait."""

FINE_MS = 2 * DAY
"""The last two days are carried in steps of five minutes, everything before by the hour."""

STRETCH = 60
"""How many instants one process looks at before it hands them over."""

_MAJOR_CONTRACTS = [f"{asset}USDT" for asset in MAJORS]
_NEWEST_SHARE = {"period": "5min", "limit": "1"}

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
    async with aclosing(_glimpses(past.world, past.at, instants, clock)) as stretches:
        async for done, glimpses in stretches:
            for glimpse in glimpses:
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


class Glimpse(NamedTuple):
    """What the exchange said about one instant, read by the same decoders as what comes live."""

    at: int
    since: int
    perpetuals: tuple[Perpetual, ...]
    shares: list[LongAccounts]
    liquidations: list[Liquidation]


def look_back(seed: int, epoch: int, stretch: list[tuple[int, int, bool]]) -> list[Glimpse]:
    """Ask the simulated exchange about a stretch of instants, each (since, at, whether in full).

    Runs in a process of its own when there is much to ask: the world is a pure function, so
    every process sees the same one.
    """
    world = _world(seed, epoch)
    return [_look(world, since, at, in_full=in_full) for since, at, in_full in stretch]


def _look(world: World, since: int, at: int, *, in_full: bool) -> Glimpse:
    kept = _kept(world.seed, world.epoch)
    replies = {
        contract: _ask(world, at, "account-ratio", symbol=contract, **_NEWEST_SHARE)
        for contract in (kept if in_full else _MAJOR_CONTRACTS)
    }
    batches = [decode_message(each) for each in liquidation_messages(world, since, at)]
    return Glimpse(
        at,
        since,
        decode_tickers(_ask(world, at, "tickers"), kept).perpetuals,
        [decode_long_accounts(reply, contract) for contract, reply in replies.items()],
        [
            each
            for batch in batches
            if isinstance(batch, Batch)
            for each in batch.liquidations
            if each.contract in kept
        ],
    )


async def _glimpses(
    world: World, start: int, instants: list[int], clock: Clock
) -> AsyncGenerator[tuple[int, list[Glimpse]], None]:
    """Look back over all of `instants`, in order, with all processors when that pays.

    When it took long, the instant at which it ended comes after them: what time brought meanwhile
    would otherwise look like an outage. Yields how many of `instants` are looked at so far, and
    the newest glimpses.
    """
    steps = [(since, at, at == instants[-1]) for since, at in pairwise([start, *instants])]
    stretches = [steps[first : first + STRETCH] for first in range(0, len(steps), STRETCH)]
    if len(stretches) <= 1:
        for stretch in stretches:
            yield len(stretch), look_back(world.seed, world.epoch, stretch)
        return
    loop = asyncio.get_running_loop()
    pool = ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=die_with_parent, initargs=(os.getpid(),)
    )
    try:
        with _deaf_children():
            jobs = [
                loop.run_in_executor(pool, look_back, world.seed, world.epoch, stretch)
                for stretch in stretches
            ]
        done = 0
        for job in jobs:
            glimpses = await job
            done += len(glimpses)
            yield done, glimpses
        last = [(instants[-1], clock(), True)] if clock() > instants[-1] else []
        # Here the processes know the world already.
        yield done, await loop.run_in_executor(pool, look_back, world.seed, world.epoch, last)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let processes that are started here never hear Ctrl-C, which is for their parent to handle.

    A blocked signal stays blocked in a child from its first instruction on.
    """
    resource_tracker.ensure_running()  # would unblock it again when started later
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@cache
def _world(seed: int, epoch: int) -> World:
    return World(seed, epoch)


def _ask(world: World, at: int, endpoint: str, **query: str) -> bytes:
    """The result of a REST endpoint at an instant."""
    query["category"] = "linear"
    status, body = answer(world, f"/v5/market/{endpoint}", query, at)
    return bytes(open_envelope(Reply(status, "application/json", None, body), at).result)


def _instruments(world: World, at: int) -> tuple[Instrument, ...]:
    return decode_instruments(_ask(world, at, "instruments-info", limit="1000")).instruments


@cache
def _kept(seed: int, epoch: int) -> dict[str, Instrument]:
    """What is tradable; asked once, because in the simulated past nothing is listed anew."""
    return {each.contract: each for each in _instruments(_world(seed, epoch), epoch)}


async def _newest(tx: Transaction) -> int | None:
    """When the last published reading was taken."""
    newest = await latest(tx, PERPETUALS)
    return None if newest is None else newest.as_of

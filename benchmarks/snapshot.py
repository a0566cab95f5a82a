"""One reading, from the exchange's bytes to the responses: CPU time of each step."""

import asyncio
import gzip
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barograph.board.board import Board
from barograph.collector.judge import Judge, write_conclusions
from barograph.kit import opening
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import HOUR, SECOND
from barograph.settings import Settings
from barograph.web.app import create_app
from benchmarks import bench
from benchmarks.market import CONTRACTS, Market, benchmark_settings, open_database

TITLE = f"One reading of {CONTRACTS} contracts: CPU time, median of the readings"
BOUND_MS = 20
WARM_UP = 5
POLL = 5 * SECOND
HOURS = 7


class Cost(NamedTuple):
    """CPU milliseconds of one reading, by step."""

    unpack: float
    decode: float
    conclude: float
    write: float
    refresh: float

    @property
    def snapshot(self) -> float:
        """What the collector spends from the unpacked bytes to the stored snapshot."""
        return self.decode + self.conclude + self.write


class Stopwatch:
    """CPU time of this process, all threads, since the last lap."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def lap(self) -> float:
        """Milliseconds since the last lap."""
        now = time.process_time()
        spent, self._last = now - self._last, now
        return spent * 1000


class Line:
    """The collector's part and the web's part on one database, with a manual clock."""

    def __init__(self, settings: Settings, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self.now = system_clock()
        self._market = Market(self.now)
        self._judge = Judge(settings)
        self._market.brief(self._judge, self.now)
        self._reader = opening.open_database(settings.database_address)
        self._board: Board = create_app(
            settings,
            self._reader,
            opening.open_database(settings.history_address),
            clock=lambda: self.now,
        ).board

    async def carry(self, step: int) -> Cost:
        """Process the reading of `step` milliseconds later, step by step."""
        self.now += step
        packed = gzip.compress(self._market.tickers(self.now), 6)
        watch = Stopwatch()
        body = gzip.decompress(packed)
        unpack = watch.lap()
        reading = self._market.read(body, self.now)
        decode = watch.lap()
        conclusion = self._judge.conclude(reading)
        conclude = watch.lap()
        await write_conclusions(self._database, self._lease, [conclusion])
        self._judge.written(conclusion)
        write = watch.lap()
        await self._board.refresh()
        return Cost(unpack, decode, conclude, write, watch.lap())

    async def close(self) -> None:
        """Release the reader's connections."""
        await self._reader.close()


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Process many readings, one after the other."""
    usual, hourly = asyncio.run(_carry(benchmark_settings(folder), plan.snapshots))
    middle = Cost(*(median(column) for column in zip(*usual, strict=True)))
    total = median(cost.snapshot for cost in usual)
    full_hour = median(cost.snapshot for cost in hourly)
    return bench.Section(
        TITLE,
        [
            bench.Figure(
                "decode + snapshot", f"{total:.1f} ms", f"< {BOUND_MS} ms", total < BOUND_MS
            ),
            bench.Figure("  decode the tickers", f"{middle.decode:.1f} ms"),
            bench.Figure("  judge and encode", f"{middle.conclude:.1f} ms"),
            bench.Figure("  write to SQLite", f"{middle.write:.1f} ms"),
            bench.Figure("decode + snapshot at a full hour", f"{full_hour:.1f} ms"),
            bench.Figure("unpack the reply before it", f"{middle.unpack:.1f} ms"),
            bench.Figure("web worker: load and render all", f"{middle.refresh:.1f} ms"),
        ],
    )


async def _carry(settings: Settings, count: int) -> tuple[list[Cost], list[Cost]]:
    """Readings every few seconds, and some at a full hour, which is also recorded."""
    database, lease = await open_database(settings)
    line = Line(settings, database, lease)
    try:
        for _ in range(WARM_UP):
            await line.carry(POLL)
        usual = [await line.carry(POLL) for _ in range(count)]
        return usual, [await line.carry(HOUR) for _ in range(HOURS)]
    finally:
        await line.close()
        await database.close()

"""One reading, from the exchange's bytes to the responses: CPU time of each step."""

import asyncio
import time
from itertools import pairwise
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
from benchmarks.market import CONTRACTS, Market, benchmark_settings, open_leased_database

TITLE = f"One reading of {CONTRACTS} contracts: CPU time, median of the readings"
BOUND_MS = 20
READINGS, QUICK_READINGS = 120, 5
POLL = 5 * SECOND
HOURS = 3


class Cost(NamedTuple):
    """CPU milliseconds of one reading, by step."""

    decode: float
    conclude: float
    write: float
    refresh: float

    @property
    def snapshot(self) -> float:
        """What the collector spends from the unpacked bytes to the stored snapshot."""
        return self.decode + self.conclude + self.write


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
        body = self._market.tickers(self.now)
        times = [time.process_time()]
        reading = self._market.read(body, self.now)
        times.append(time.process_time())
        conclusion = self._judge.conclude(reading)
        times.append(time.process_time())
        await write_conclusions(self._database, self._lease, [conclusion])
        self._judge.written(conclusion)
        times.append(time.process_time())
        await self._board.refresh()
        times.append(time.process_time())
        return Cost(*(1000 * (end - start) for start, end in pairwise(times)))

    async def close(self) -> None:
        """Release the reader's connections."""
        await self._reader.close()


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Process many readings, one after the other."""
    readings = plan.size(READINGS, QUICK_READINGS)
    usual, hourly = asyncio.run(_carry(benchmark_settings(folder), readings))
    middle = Cost(*(median(column) for column in zip(*usual, strict=True)))
    total, at_hour = (median(cost.snapshot for cost in costs) for costs in (usual, hourly))
    return bench.Section(
        TITLE,
        [
            bench.limited("decode + snapshot", total, "ms", BOUND_MS),
            bench.limited("  decode the tickers", middle.decode, "ms"),
            bench.limited("  judge and encode", middle.conclude, "ms"),
            bench.limited("  write to SQLite", middle.write, "ms"),
            bench.limited("decode + snapshot at a full hour", at_hour, "ms"),
            bench.limited("web worker: load and render all", middle.refresh, "ms"),
        ],
    )


async def _carry(settings: Settings, count: int) -> tuple[list[Cost], list[Cost]]:
    """Readings every few seconds, and some at a full hour, which is also recorded."""
    database, lease = await open_leased_database(settings)
    line = Line(settings, database, lease)
    try:
        await line.carry(POLL)
        usual = [await line.carry(POLL) for _ in range(count)]
        return usual, [await line.carry(HOUR) for _ in range(HOURS)]
    finally:
        await line.close()
        await database.close()

"""The time until the first response, and the disk that five venues need; `venues.py` has memory."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import FRAME_STEP, stored
from barograph.markets.store import FRAME_MS, MINUTE_DAYS, ReadingRow, Resolution, record_rows
from barograph.venues.records import Frame, PastValues
from barograph.venues.registry import BYBIT
from benchmarks import bench
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Start-up, from the command to the first 200 of market-state; and disk"
STARTS = 5
CONTRACTS, VENUE_COUNT, MAJOR_COUNT = 2_000, 5, 3
YEAR_DAYS, MB = 365, 1e6


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Start the web over a database that a collector has filled, then fill a disk."""
    publish_market(benchmark_settings(folder))
    starts = plan.size(STARTS, 1)
    seconds = median(_seconds_to_serve(folder) for _ in range(starts))
    figures = [bench.Figure("`barograph serve`", f"{seconds:.2f} s (median of {starts})")]
    figures += asyncio.run(_disk(folder, CONTRACTS if plan.is_full else CONTRACTS // 10))
    return bench.Section(TITLE, figures)


async def _disk(folder: Path, contracts: int) -> list[bench.Figure]:
    """What a day adds, without liquidations, and what a year leaves with the usual retention."""
    database = SQLiteDatabase(folder / "disk.sqlite3", survives_power_cuts=False)
    await upgrade(database, packaged_migrations(), system_clock)
    own, majors = contracts // VENUE_COUNT, MAJOR_COUNT * VENUE_COUNT
    hours, minutes = contracts * 24, majors * 24 * 60
    days = (
        await _grown(database, [_row("hour", n // 24, n % 24 * HOUR) for n in range(hours)]),
        await _grown(database, [_row("minute", n % majors, n * MINUTE) for n in range(minutes)]),
        DAY // FRAME_STEP * VENUE_COUNT * len(stored(_frame(own)).body),
    )
    await database.close()
    year = (YEAR_DAYS, MINUTE_DAYS, FRAME_MS / DAY)
    total = sum(size * kept for size, kept in zip(days, year, strict=True))
    names = ("hours", "minutes of BTC, ETH and SOL, kept for 30 days", "frames, kept for 7 days")
    return [
        bench.Figure(f"Disk per day, {contracts:,} contracts", f"{sum(days) / MB:.1f} MB"),
        *(
            bench.Figure(f"  {name}", f"{size / MB:.1f} MB")
            for name, size in zip(names, days, strict=True)
        ),
        bench.Figure("  after a year", f"{total / MB:,.0f} MB"),
    ]


async def _grown(database: Database, rows: Sequence[ReadingRow]) -> int:
    """How many bytes these rows add."""
    before = await _size(database)
    await database.write(lambda tx: record_rows(tx, BYBIT, readings=rows))
    return await _size(database) - before


async def _size(database: Database) -> int:
    ((pages,),), ((size,),) = [
        await database.fetch(f"PRAGMA {name}") for name in ("page_count", "page_size")
    ]
    return int(pages) * int(size)


def _row(resolution: Resolution, contract: int, at: int) -> ReadingRow:
    values = [random.random() * 1e6 for _ in range(4)]
    return ReadingRow(
        *(resolution, f"COIN{contract}USDT", at, values[0], 0.01, 8.0, values[1], 50.1, values[2]),
        *("", values[0] + 1, values[0] + 2, values[3], values[3] / 7),
    )


def _frame(contracts: int) -> Frame:
    def value() -> PastValues:
        price, usd, coins = (round(random.random() * 1e6, 2) for _ in range(3))
        return PastValues(price, usd, coins, 0.01)

    return Frame(0, {f"COIN{number}USDT": value() for number in range(contracts)})


def _seconds_to_serve(folder: Path) -> float:
    started = time.monotonic()
    with bench.web_service(benchmark_settings(folder)):
        return time.monotonic() - started

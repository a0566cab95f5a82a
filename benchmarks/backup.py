"""A backup of a large SQLite database while it is written to."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event

from barograph.kit.database import Row, Transaction
from barograph.kit.sqlite import SQLiteDatabase
from benchmarks import bench
from benchmarks.market import make_database

TITLE = "Backup of a SQLite database while a writer writes every 5 ms"
FULL_MB, QUICK_MB = 1_000, 5
BATCH = 50_000
CONTRACTS = 20
PAUSE_SECONDS = 0.005
CONTROL_SECONDS, QUICK_SECONDS = 5, 1

_INSERT = f"INSERT INTO readings VALUES ({', '.join(f'${n}' for n in range(1, 12))})"


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Measure the writes alone, then during a backup."""
    data = folder / "data"
    data.mkdir()
    megabytes = plan.size(FULL_MB, QUICK_MB)
    asyncio.run(_fill(data, megabytes * 1_000_000))
    size = (data / "barograph.sqlite3").stat().st_size / 1e6
    control = partial(time.sleep, plan.size(CONTROL_SECONDS, QUICK_SECONDS))
    alone, _ = _writes_during(data, control)
    beside, seconds = _writes_during(data, partial(_back_up, data, folder / "backup"))
    again, _ = _writes_during(data, control)
    figures = [bench.Figure(f"backup of {size:,.0f} MB, checked", f"{seconds:.1f} s")]
    for name, times in (("during it", beside), ("before it", alone), ("after it", again)):
        figures.append(bench.Figure(f"longest pause of a write {name}", _text(times)))
    return bench.Section(TITLE, figures)


def _text(times: list[float]) -> str:
    return f"{max(times):.0f} ms (median {median(times):.1f} ms, {len(times):,} writes)"


async def _fill(data: Path, size: int) -> None:
    await (await make_database(data / "history.sqlite3", "history")).close()
    await (await make_database(data / "barograph.sqlite3")).close()
    database = SQLiteDatabase(data / "barograph.sqlite3", survives_power_cuts=False)
    number = 0
    while (data / "barograph.sqlite3").stat().st_size < size:
        rows = [_row(number, each) for each in range(BATCH)]
        await database.write(partial(_insert, rows=rows))
        number += 1
    await database.close()


async def _insert(tx: Transaction, rows: list[Row]) -> None:
    await tx.execute_many(_INSERT, rows)


def _row(contract: int, at: int) -> Row:
    return ("bybit", "minute", f"C{contract:04}", at, at / 7, *[at / 3] * 5, "measured")


def _back_up(data: Path, target: Path) -> None:
    command = (*bench.BAROGRAPH, "backup", str(target), "--data", str(data))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise bench.BenchmarkFailed(done.stderr)


def _writes_during(data: Path, work: Callable[[], None]) -> tuple[list[float], float]:
    """The milliseconds of each write while `work` runs, and the seconds that it takes."""
    stop = Event()
    with ThreadPoolExecutor(1) as thread:  # this process only waits meanwhile
        writing = thread.submit(asyncio.run, _write(data, stop))
        started = time.perf_counter()
        try:
            work()
        finally:
            stop.set()
        return writing.result(), time.perf_counter() - started


async def _write(data: Path, stop: Event) -> list[float]:
    database, times = SQLiteDatabase(data / "barograph.sqlite3"), []
    ((at,),) = await database.fetch("SELECT max(at) FROM readings")
    while not stop.is_set():
        at += 1
        rows = [_row(contract, at) for contract in range(CONTRACTS)]
        started = time.perf_counter()
        await database.write(partial(_insert, rows=rows))
        times.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    await database.close()
    return times

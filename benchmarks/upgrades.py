"""An upgrade of a large record: how long it takes, and how long readers wait meanwhile."""

import asyncio
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from barograph.cli.common import UPGRADE_WAIT_MS
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, Transaction
from barograph.kit.migrations import SERVICE, Migration, packaged_migrations, upgrade
from barograph.kit.opening import Address, open_database
from benchmarks import bench
from support.postgresql import running_postgresql

TITLE = "Upgrade of {readings:,} readings: how long it takes, and how long readers wait"
READINGS, QUICK_READINGS, CONTRACTS = 10_000_000, 100_000, 571
BEFORE_VENUES, PREVIOUS = 13, 29
OPTIONS = {"fsync": "on", "shared_buffers": "1GB", "max_wal_size": "8GB"}
WAIT_MS = 600_000
PAUSE_SECONDS = 0.02


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Upgrade a file from the oldest version with a record, then both engines from the last one."""
    readings = plan.size(READINGS, QUICK_READINGS)
    file = folder / "upgraded.sqlite3"
    asyncio.run(_fill(file, _until(BEFORE_VENUES), readings, _FILE_READINGS))
    figures = [
        *_upgraded(f"SQLite, {BEFORE_VENUES} to {PREVIOUS}", file, _until(PREVIOUS)),
        *_upgraded(f"SQLite, {PREVIOUS} to now", file, packaged_migrations()),
    ]
    with running_postgresql(options=OPTIONS) as server:
        url, steps = server.create(), packaged_migrations(SERVICE, POSTGRESQL)
        asyncio.run(_fill(url, steps[:1], readings, _SERVER_READINGS))
        figures += _upgraded(f"PostgreSQL, {steps[0].number} to now", url, steps)
    return bench.Section(TITLE.format(readings=readings), figures)


def _until(number: int) -> list[Migration]:
    return [step for step in packaged_migrations() if step.number <= number]


async def _fill(
    address: Address, steps: Sequence[Migration], readings: int, readings_sql: str
) -> None:
    """Make the tables of an earlier version and their readings, and build the index afterwards."""
    values = CONTRACTS, readings // CONTRACTS
    database = open_database(
        address, write_ms=WAIT_MS, statement_ms=WAIT_MS, survives_power_cuts=False
    )
    await upgrade(database, steps, system_clock)

    async def work(tx: Transaction) -> None:
        await tx.execute("DROP INDEX readings_by_age")
        await tx.execute(readings_sql, *values)
        await tx.execute(_INDEX)

    await database.write(work)
    await database.close()


def _upgraded(name: str, address: Address, steps: Sequence[Migration]) -> list[bench.Figure]:
    """Apply the missing steps while another process reads the newest hour again and again."""
    context = get_context("spawn")
    is_done, (results, sender) = context.Event(), context.Pipe(duplex=False)
    reader = context.Process(target=_read, args=(address, is_done, sender))
    reader.start()
    results.recv()  # it has read once
    began = time.perf_counter()
    asyncio.run(_apply(address, steps))
    seconds = time.perf_counter() - began
    is_done.set()
    longest = results.recv()
    reader.join()
    return [
        bench.limited(name, seconds, "s"),
        bench.limited("  longest read meanwhile", 1000 * longest, "ms", digits=0),
    ]


async def _apply(address: Address, steps: Sequence[Migration]) -> None:
    database = open_database(address, write_ms=UPGRADE_WAIT_MS, statement_ms=UPGRADE_WAIT_MS)
    await upgrade(database, steps, system_clock)
    await database.close()


def _read(address: Address, is_done: Event, sender: "Connection[float, None]") -> None:
    """Send the longest time of a read."""

    async def work() -> None:
        database = open_database(address, read_ms=WAIT_MS, statement_ms=WAIT_MS)
        longest, is_first = 0.0, True
        while is_first or not is_done.is_set():
            began = time.perf_counter()
            await database.fetch(_READ)
            if is_first:
                sender.send(0.0)
                is_first = False
            else:
                longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
        await database.close()
        sender.send(longest)

    asyncio.run(work())


_READ = """
SELECT contract, last_price FROM readings WHERE resolution = 'hour'
    AND at = (SELECT max(at) FROM readings WHERE resolution = 'hour')
"""
_INDEX = "CREATE INDEX readings_by_age ON readings (resolution, at)"
_COLUMNS = """(resolution, contract, at, last_price, funding_rate_pct, funding_interval_hours,
    open_interest_usd, long_account_pct"""
_VALUES = (
    """'hour', 'C' || contract || 'USDT', hour * 3600000, 100.0 + hour % 97, 0.01, 8, 1e9, 50"""
)
_FILE_READINGS = f"""
WITH RECURSIVE
    contracts (contract) AS (
        SELECT 1 UNION ALL SELECT contract + 1 FROM contracts WHERE contract < $1),
    hours (hour) AS (SELECT 1 UNION ALL SELECT hour + 1 FROM hours WHERE hour < $2)
INSERT INTO readings {_COLUMNS}) SELECT {_VALUES} FROM contracts CROSS JOIN hours
"""
_SERVER_READINGS = f"""
INSERT INTO readings {_COLUMNS}, venue, origin) SELECT {_VALUES}, 'bybit', 'measured'
FROM generate_series(1, $1::bigint) AS contract, generate_series(1, $2::bigint) AS hour
"""

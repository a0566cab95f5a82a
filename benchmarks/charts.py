"""What a chart costs: reading sixty days of one contract, drawing them, and the bytes."""

import asyncio
import time
from collections.abc import Iterator
from math import sin
from pathlib import Path
from statistics import median

from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Transaction
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import HOUR
from barograph.markets.liquidation_store import liquidation_series
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.records import ContractName
from barograph.markets.samples import LiquidationSeries, Series
from barograph.markets.series import reading_series
from barograph.markets.store import ReadingRow, record_rows
from barograph.site.charts.columns import column_chart
from barograph.site.charts.lines import line_chart
from barograph.site.charts.small import REGIME_BANDS
from benchmarks import bench

TITLE = "Charts of 60 days, among {contracts} contracts in the record: median"
DAYS = 60
CONTRACTS, FEW_CONTRACTS = 700, 70
BATCH = 50_000
REPEATS = 60
BOUND_BYTES = 5_000
MIN_WATCHED_PCT = 95.0


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Fill a record, then read and draw from it again and again."""
    contracts = CONTRACTS if plan.demo else FEW_CONTRACTS
    figures = asyncio.run(_measure(folder, contracts))
    return bench.Section(TITLE.format(contracts=contracts), figures)


async def _measure(folder: Path, contracts: int) -> list[bench.Figure]:
    database = SQLiteDatabase(folder / "charts.sqlite3", survives_power_cuts=False)
    now = system_clock() // HOUR * HOUR
    try:
        await upgrade(database, packaged_migrations(), system_clock)
        await fill_charts(database, contracts, now)
        return await _figures(database, now)
    finally:
        await database.close()


async def _figures(database: SQLiteDatabase, now: int) -> list[bench.Figure]:
    async def lines(tx: Transaction) -> Series:
        return await reading_series(tx, ContractName("bybit", "C1USDT"), "funding", DAYS, now)

    async def columns(tx: Transaction) -> LiquidationSeries:
        return await liquidation_series(tx, "bybit", DAYS, now, MIN_WATCHED_PCT)

    line_reads, column_reads = [], []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        series = await database.read(lines)
        read = time.perf_counter()
        liquidated = await database.read(columns)
        line_reads.append(read - begun)
        column_reads.append(time.perf_counter() - read)
    drawn = _line(series)
    size = len(drawn.encode())
    return [
        bench.Figure(f"read a line of {len(series.points)} points", _ms(line_reads)),
        bench.Figure(
            "draw it, with the regime's bands",
            f"{bench.milliseconds(lambda: _line(series), REPEATS):.2f} ms",
        ),
        bench.Figure("  its bytes", f"{size}", f"<= {BOUND_BYTES}", size <= BOUND_BYTES),
        bench.Figure(f"read {len(liquidated.columns)} columns of liquidations", _ms(column_reads)),
        bench.Figure(
            "draw them", f"{bench.milliseconds(lambda: _columns(liquidated), REPEATS):.2f} ms"
        ),
    ]


def _line(series: Series) -> str:
    return line_chart(
        series, prefix="funding", name="Funding", unit="% per 8 h", show=str, bands=REGIME_BANDS
    )


def _columns(series: LiquidationSeries) -> str:
    return column_chart(series, prefix="liquidations", name="Liquidations")


def _ms(seconds: list[float]) -> str:
    return f"{1000 * median(seconds):.2f} ms"


async def fill_charts(database: Database, contracts: int, now: int) -> None:
    """Record all hours of 60 days for some contracts, and liquidations."""
    rows: list[ReadingRow] = []

    async def write(tx: Transaction) -> None:
        await record_rows(tx, "bybit", readings=rows)

    for reading in _readings(contracts, now):
        rows.append(reading)
        if len(rows) == BATCH:
            await database.write(write)
            rows.clear()
    await database.write(write)
    hours = [
        LiquidationHour(now - back * HOUR, 1e6 * (2 + sin(back)), 1e6, 100.0)
        for back in range(1, DAYS * 24 + 1)
    ]
    await database.write(lambda tx: record_rows(tx, "bybit", liquidation_hours=hours))


def _readings(contracts: int, now: int) -> Iterator[ReadingRow]:
    """Hour by hour, as the record grows: the hours of one contract lie far apart in the file."""
    for back in range(DAYS * 24, -1, -1):
        for number in range(contracts):
            rate_pct = 0.01 + 0.02 * sin(back / 9 + number)
            yield ReadingRow(
                "hour", f"C{number}USDT", now - back * HOUR, 100.0, rate_pct, 8, 1e9, 50.0
            )

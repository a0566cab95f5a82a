"""Recorded series: two years of hours as one table, and one page in records of different sizes."""

import asyncio
import http.client
import random
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

import apsw

from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.lists import DEFAULT_LIMIT
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR
from barograph.series.query import SeriesQuery, series_query
from barograph.series.reader import read_page
from barograph.settings import Settings
from barograph.venue_names import VENUE_NAMES
from barograph.venues.registry import BYBIT, VENUES
from benchmarks import bench
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Recorded series: {days} days by the hour as CSV, and a page of 500 points"
DAYS = 730
YEAR, OTHERS = 365 * 24, 20
CONTRACTS, FEW_CONTRACTS = 571, 10
SIZES, SMALL_SIZES = (1_000_000, 10_000_000), (10_000, 100_000)
HOURS_PER_WRITE = 200
PAGES_PER_ROUND = 40
MAX_MB, MAX_FIRST_MS, MAX_RATIO = 60, 50, 1.3


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Read tables from a running service, then pages from two databases in turns."""
    figures = _tables(folder / "web", plan.rounds) + asyncio.run(_pages(plan, folder))
    return bench.Section(TITLE.format(days=DAYS), figures)


def _tables(data: Path, rounds: int) -> list[bench.Figure]:
    data.mkdir()
    settings = benchmark_settings(data).model_copy(update={"venues": ",".join(VENUE_NAMES)})
    publish_market(settings)
    now = system_clock()
    with closing(apsw.Connection(str(settings.database_path))) as connection:
        fill(connection, DAYS * 24, 1, now, "BTC")
        for venue in VENUE_NAMES:
            fill(connection, YEAR * OTHERS, OTHERS, now, venue=venue)
            contract = VENUES[venue].contract("C0")
            connection.execute(_LIST, (venue, contract, now - YEAR * HOUR))
    target = f"/api/v1/series/price.csv?from={now // DAY * DAY - DAYS * DAY}"
    year = now // DAY * DAY - YEAR * HOUR
    totals = f"/api/v1/series/open-interest.csv?venue=all&symbol=C0&from={year}"
    with bench.web_service(settings) as web:
        _table(settings.port, "/api/v1/series/price.csv", web)
        before = web.memory().rss
        found = [_table(settings.port, target, web) for _ in range(rounds)]
        summed = [_table(settings.port, totals, web) for _ in range(rounds)]
    extra = max(peak for *_, peak in found) - before
    first_ms = 1000 * median(first for _, first, *_ in found)
    size, _, whole, _ = found[0]
    return [
        bench.Figure(f"a table of {size / 1e6:.1f} MB", f"{1000 * whole:.0f} ms"),
        bench.limited("  its first byte", first_ms, "ms", MAX_FIRST_MS),
        bench.limited("  extra memory of the worker", extra, "MB", MAX_MB),
        bench.Figure(
            f"a year of hourly totals of {len(VENUE_NAMES)} venues, {summed[0][0] / 1e6:.1f} MB",
            f"{1000 * summed[0][2]:.0f} ms",
        ),
        bench.limited(
            "  its first byte", 1000 * median(first for _, first, *_ in summed), "ms", MAX_FIRST_MS
        ),
    ]


def _table(port: int, target: str, web: bench.Child) -> tuple[int, float, float, float]:
    """The bytes of a table, the seconds to its first byte and to its end, and the peak memory."""
    connection = http.client.HTTPConnection(bench.HOST, port, timeout=60)
    begun = time.perf_counter()
    connection.request("GET", target)
    response = connection.getresponse()
    size = len(response.read(1))
    first = time.perf_counter() - begun
    peak = 0.0
    while chunk := response.read(256 * 1024):
        size += len(chunk)
        peak = max(peak, web.memory().rss)
    connection.close()
    return size, first, time.perf_counter() - begun, peak


async def _pages(plan: bench.Plan, folder: Path) -> list[bench.Figure]:
    sizes, contracts = (SIZES, CONTRACTS) if plan.is_full else (SMALL_SIZES, FEW_CONTRACTS)
    now = system_clock() // HOUR * HOUR
    records = [await _filled(folder, size, contracts, now) for size in sizes]
    try:
        seconds: list[list[float]] = [[] for _ in sizes]
        for number in range(-1, plan.rounds):
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                took = await _page_seconds(
                    records[index], contracts, sizes[index] // contracts, now
                )
                if number >= 0:
                    seconds[index].append(took)
    finally:
        for database in records:
            await database.close()
    ratios = [large / small for small, large in zip(*seconds, strict=True)]
    return [
        *(
            bench.Figure(f"a page from {size:,} readings", f"{1000 * median(found):.2f} ms")
            for size, found in zip(sizes, seconds, strict=True)
        ),
        bench.at_most("  the larger / the smaller record", ratios, MAX_RATIO),
    ]


async def _filled(folder: Path, size: int, contracts: int, now: int) -> Database:
    """Hour by hour, as the record grows: the hours of one contract lie far apart in the file."""
    path = folder / f"{size}.sqlite3"
    database = SQLiteDatabase(path, survives_power_cuts=False)
    await upgrade(database, packaged_migrations(), system_clock)
    with closing(apsw.Connection(str(path))) as connection:
        fill(connection, size, contracts, now)
    return database


def fill(
    connection: apsw.Connection,
    size: int,
    contracts: int,
    now: int,
    coin: str = "C",
    *,
    venue: str = BYBIT,
) -> None:
    """Record so many readings up to this hour, of one coin or of C0, C1 and so on."""
    end = now // HOUR
    connection.execute(_FAST)
    for start in range(end - size // contracts, end, HOURS_PER_WRITE):
        stop = min(start + HOURS_PER_WRITE, end)
        connection.execute(_FILL, (contracts, start, stop, coin, venue, VENUES[venue].suffix))


async def _page_seconds(database: Database, contracts: int, hours: int, now: int) -> float:
    """The median time of some pages at random places."""
    times = []
    for _ in range(PAGES_PER_ROUND):
        start = now - random.randrange(DEFAULT_LIMIT, hours) * HOUR
        query = _query(f"C{random.randrange(contracts)}", start, now)
        begun = time.perf_counter()
        page = await database.read(partial(read_page, query=query, contracts={}, now=now))
        times.append(time.perf_counter() - begun)
        assert len(page.rows) == DEFAULT_LIMIT
    return median(times)


def _query(symbol: str, start: int, now: int) -> SeriesQuery:
    given = {"symbol": symbol, "from": str(start)}
    return series_query("funding", given, settings=Settings(), now=now)


_FAST = "PRAGMA cache_size = -1000000; PRAGMA synchronous = off; PRAGMA journal_mode = wal"
_FILL = """
WITH RECURSIVE
    hours (hour) AS (SELECT ?2 UNION ALL SELECT hour + 1 FROM hours WHERE hour + 1 < ?3),
    contracts (number) AS (
        SELECT 0 UNION ALL SELECT number + 1 FROM contracts WHERE number + 1 < ?1)
INSERT INTO readings (venue, resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours, open_interest_usd, long_account_pct, open_interest_coins, origin)
SELECT ?5, 'hour', CASE WHEN ?4 = 'C' THEN 'C' || number ELSE ?4 END || ?6,
    hour * 3600000, 100.0 + hour % 97, 0.01, 8, 1e9, 50.0, 1e7, 'measured'
FROM hours CROSS JOIN contracts WHERE true
ON CONFLICT DO NOTHING
"""
_LIST = """
INSERT INTO listings (venue, contract, listed_at, asset, multiplier) VALUES (?1, ?2, ?3, 'C0', 1)
"""

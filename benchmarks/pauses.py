"""The longest pause of hot reads while every page and the longest lists are requested."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from barograph.history.ledger import HISTORY
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.settings import Settings
from benchmarks import bench, series
from benchmarks.market import benchmark_settings, make_database, publish_market

TITLE = (
    "Longest hot read while others read pages, as a multiple of the quiet one: {readings:,} "
    "readings, {liquidations:,} liquidations per day"
)
READINGS, LIQUIDATIONS = series.SIZES[1], 300_000
FEW_READINGS, FEW_LIQUIDATIONS = series.SMALL_SIZES[0], 3_000
BOUND = 10
SHOWN = 5
QUIET_SECONDS, QUICK_SECONDS = 4, 1
PAUSE_SECONDS = 0.001

LARGE = (
    "/markets",
    "/liquidations",
    "/markets/BTC?days=60",
    "/api/v1/liquidations?limit=5000",
    "/api/v1/series/price?interval=minute&limit=5000",
    "/api/v1/series/price.csv?interval=minute&from={month}",
    "/api/history/checkpoint",
    "/api/history/rates-desk?limit=1000",
)
VISIT = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=60)
connection.request("GET", sys.argv[3], headers={"Accept-Encoding": "gzip"})
response = connection.getresponse()
response.read()
assert response.status == 200, response.status
"""
"""In a process of its own: a thread would delay the measuring one."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Each round starts a new service, whose caches are empty."""
    readings, liquidations = (
        (READINGS, LIQUIDATIONS) if plan.is_full else (FEW_READINGS, FEW_LIQUIDATIONS)
    )
    settings = benchmark_settings(folder)
    publish_market(settings)
    asyncio.run(_make_history(settings))
    _fill(settings, readings, liquidations)
    pages: list[float] = []
    lists: list[float] = []
    slowest: dict[str, float] = {}
    for _ in range(plan.rounds):
        with bench.web_service(settings):
            port, month = settings.port, system_clock() - 29 * DAY
            quiet = _longest(port, bench.during(plan.size(QUIET_SECONDS, QUICK_SECONDS)))
            for found, targets in (
                (pages, _pages(port)),
                (lists, [each.format(month=month) for each in LARGE]),
            ):
                paused = {each: _longest_during(port, each) for each in targets}
                found.append(max(paused.values()) / quiet)
                slowest |= paused
    return bench.Section(
        TITLE.format(readings=readings, liquidations=liquidations),
        [
            bench.at_most("pages, whose templates are compiled at the first request", pages),
            bench.at_most("lists, /markets and /liquidations", lists, BOUND),
            *(
                bench.Figure(f"  {target.partition('?')[0]}", f"{1000 * slowest[target]:.1f} ms")
                for target in sorted(slowest, key=lambda each: -slowest[each])[:SHOWN]
            ),
        ],
    )


def _pages(port: int) -> list[str]:
    """The pages of the sitemap, with one of each kind where there are many, but not `LARGE`."""
    found = bench.answers(port, "/sitemap.xml")
    if found is None:
        raise bench.BenchmarkFailed("the sitemap is missing")
    paths = re.findall(r"<loc>https?://[^/]+([^<]*)</loc>", found.body.decode())
    kinds = {re.sub(r"^(/\w+/).*", r"\1", path): path for path in paths if path not in LARGE}
    return list(kinds.values())


def _longest_during(port: int, target: str) -> float:
    command = (sys.executable, "-c", VISIT, bench.HOST, str(port), target)
    with subprocess.Popen(command, cwd=bench.ROOT) as visitor:
        longest = _longest(port, lambda: visitor.poll() is None)
    if visitor.returncode:
        raise bench.BenchmarkFailed(f"{target} can't be read")
    return longest


def _longest(port: int, is_on: Callable[[], bool]) -> float:
    """The longest hot read while something goes on."""
    return max(bench.read_times(port, MARKET_STATE_PATH, is_on, PAUSE_SECONDS))


async def _make_history(settings: Settings) -> None:
    await (await make_database(settings.history_address, HISTORY)).close()


def _fill(settings: Settings, readings: int, liquidations: int) -> None:
    now = system_clock()
    with closing(apsw.Connection(str(settings.database_path))) as connection:
        series.fill(connection, readings, series.CONTRACTS, now // HOUR * HOUR)
        span = (now // MINUTE - 29 * 24 * 60, now // MINUTE)
        connection.execute(_MINUTES, span)
        connection.execute(_LIQUIDATIONS, (liquidations, now - DAY, DAY // liquidations))


_MINUTES = """
WITH RECURSIVE minutes (number) AS (
    SELECT ?1 UNION ALL SELECT number + 1 FROM minutes WHERE number + 1 < ?2)
INSERT INTO readings (venue, resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours, open_interest_usd, long_account_pct, open_interest_coins, origin)
SELECT 'bybit', 'minute', 'BTCUSDT', number * 60000, 100.0 + number % 97, 0.01, 8, 1e9, 50.0, 1e7,
    'measured'
FROM minutes WHERE true ON CONFLICT DO NOTHING
"""
_LIQUIDATIONS = """
WITH RECURSIVE counted (number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM counted WHERE number + 1 < ?1)
INSERT INTO liquidations (venue, at, contract, side, size, price, origin)
SELECT 'bybit', ?2 + number * ?3, 'C' || (number % 571) || 'USDT',
    CASE number % 2 WHEN 0 THEN 'long' ELSE 'short' END, 1.0 + number % 13, 100.0, 'measured'
FROM counted WHERE true ON CONFLICT DO NOTHING
"""

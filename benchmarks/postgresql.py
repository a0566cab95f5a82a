"""The service on PostgreSQL: whether reads stay as fast while tables grow, and SQLite beside it.

The server is a real one on this machine that waits for the disk. Each read is measured on a small
database, on the same one again as A/A control, on a large one, and on a small one of SQLite.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import NamedTuple

import apsw
import asyncpg
import psutil
import uvloop
from pydantic import SecretStr

from barograph.keys.api_keys import ID_BYTES, SECRET_BYTES, ApiKeys, load_pepper
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Row, Value
from barograph.kit.opening import Address, open_database
from barograph.kit.timestamps import HOUR
from barograph.markets.series import reading_series
from barograph.settings import Settings
from barograph.signals.documents import SIGNALS_PATH
from barograph.venues.records import ContractName
from benchmarks import bench, load, series
from benchmarks.appends import append_rate
from benchmarks.hot_reads import Contender, alternate_latencies
from benchmarks.ledger import BATCH, LONG, QUICK_LONG, SHORT, load_record
from benchmarks.market import (
    benchmark_settings,
    make_database,
    open_leased_database,
    publish_market,
    running_world,
)
from benchmarks.peers import unlimited_service
from benchmarks.snapshot import POLL, READINGS, Line
from benchmarks.subscribers import bearer, entitled_settings, fill_service
from support.comparisons import of_rates
from support.postgresql import PostgreSQL, running_postgresql

TITLE = "On PostgreSQL, and on SQLite beside it: median of the rounds (middle half)"
OPTIONS: Mapping[str, object] = {"fsync": "on", "shared_buffers": "1GB", "max_wal_size": "8GB"}
COMPARISON_BOUND, KEYS_BOUND, CHART_BOUND = 1.3, 1.2, 1.5
APPENDS, QUICK_APPENDS = 200, 20
FEW_KEYS, MANY_KEYS, QUICK_KEYS = 100, 1_000_000, 1_000
SENT_KEYS = 10_000
DAYS, FEW_HOURS, HOURS, QUICK_HOURS = 60, 1_441, 14_286, 1_450
FEW_CONTRACTS, CONTRACTS, QUICK_CONTRACTS = 69, 700, 70
CHARTS = 60
COST_SECONDS, QUICK_COST_SECONDS = 3, 1

SCRIPT = """
local keys = {{{keys}}}
local count = 0
request = function()
  count = count + 1
  wrk.headers["X-API-Key"] = keys[count % #keys + 1]
  return wrk.format()
end
"""


class Request(NamedTuple):
    """What readers send to a service."""

    target: str
    fields: tuple[str, ...] = ()
    script: Path | None = None


class Subject(NamedTuple):
    """A request whose table grows from a small to a large size."""

    name: str
    unit: str
    setting: str
    """Which database has the table."""

    sizes: tuple[int, int]
    bound: float
    fill: Callable[[Settings, int], Request]


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Writes, then each read."""
    with (
        running_postgresql(options=OPTIONS) as server,
        running_world(folder, "identity") as servers,
    ):
        subscriber = bearer(folder, servers)
        versions, keys = (SHORT, plan.size(LONG, QUICK_LONG)), plan.size(MANY_KEYS, QUICK_KEYS)
        subjects = (
            Subject(
                "signals with a key",
                "keys",
                "database_url",
                (FEW_KEYS, keys),
                KEYS_BOUND,
                _fill_keys,
            ),
            Subject(
                "comparison",
                "versions",
                "history_url",
                versions,
                COMPARISON_BOUND,
                lambda settings, count: Request(fill_service(settings, count), subscriber),
            ),
        )
        appends = plan.size(APPENDS, QUICK_APPENDS)
        figures = [_appends(server, folder, writers, appends) for writers in (1, plan.size(8, 2))]
        settings = benchmark_settings(folder).model_copy(update=_urls(server))
        figures.append(asyncio.run(_publishing(server, settings, plan.size(READINGS, 5))))
        for subject in subjects[: plan.size(2, 1)]:
            new_settings = partial(entitled_settings, servers=servers)
            figures += _compare(subject, server, folder, new_settings, plan)
        urls = (server.create(), server.create())
        figures += uvloop.run(_charts(urls, folder / "charts.sqlite3", plan))
    return bench.Section(TITLE, figures)


def _appends(server: PostgreSQL, folder: Path, writers: int, appends: int) -> bench.Figure:
    """Separate processes append to one chain, each append on disk."""
    rates = []
    for address in (server.create(), folder / f"appends-{writers}.sqlite3"):
        asyncio.run(load_record(address, 0))
        rates.append(append_rate(address, of_rates(), writers, appends))
    text = f"{rates[0]:,.0f}, on SQLite {rates[1]:,.0f}"
    return bench.Figure(f"appends per second, writers: {writers}", text)


def _compare(
    subject: Subject,
    server: PostgreSQL,
    folder: Path,
    new_settings: Callable[[Path], Settings],
    plan: bench.Plan,
) -> list[bench.Figure]:
    name, unit, setting, (small, large), bound, fill = subject
    filled: dict[str, tuple[Settings, Request]] = {}
    for case, size in (("small", small), ("large", large), ("sqlite", small)):
        settings = new_settings(folder / f"{unit}-{case}")
        settings = settings.model_copy(update={} if case == "sqlite" else _urls(server))
        filled[case] = settings, fill(settings, size)
        for address in (settings.database_address, settings.history_address):
            _analyze(address)
    filled["twin"] = filled["small"]
    targets = {case: request.target for case, (_, request) in filled.items()}
    with ExitStack() as stack:
        services = {}
        for case in ("small", "large", "twin", "sqlite"):
            settings, request = filled[case]
            settings = settings.model_copy(update={"port": bench.unused_port()})
            child = stack.enter_context(unlimited_service(settings))
            services[case] = Contender(child, settings.port, request.fields, request.script)
        latencies = alternate_latencies(services, targets, plan.rounds)
        seconds = plan.size(COST_SECONDS, QUICK_COST_SECONDS)
        cost = _cost(server, services["large"], targets["large"], seconds)
    p50 = {case: [latency.p50 for latency in column] for case, column in latencies.items()}
    return [
        _latency(f"{name}, {small:,} {unit}", latencies["small"]),
        _latency(f"{name}, {large:,} {unit}", latencies["large"]),
        _latency(f"{name}, {small:,} on SQLite", latencies["sqlite"]),
        *_growth(p50, f"{large:,} / {small:,}", bound),
        cost,
        _disk(getattr(filled["large"][0], setting).get_secret_value(), large, unit),
    ]


def _latency(name: str, latencies: list[load.Latency]) -> bench.Figure:
    """The latency of one service, as the median of its rounds."""
    p50, p99 = (median(column) for column in zip(*latencies, strict=True))
    return bench.Figure(name, f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")


def _growth(p50: bench.Rates, sizes: str, bound: float) -> list[bench.Figure]:
    return [
        bench.at_most(f"  p50: {sizes}", bench.ratios(p50, "large", "small", "twin"), bound),
        bench.at_most("  A/A control", bench.ratios(p50, "twin", "small")),
        bench.at_most("  p50: PostgreSQL / SQLite", bench.ratios(p50, "small", "sqlite")),
    ]


def _urls(server: PostgreSQL) -> dict[str, SecretStr]:
    """Two new databases, by the settings that name them."""
    return {name: SecretStr(server.create()) for name in ("database_url", "history_url")}


def _fill_keys(settings: Settings, count: int) -> Request:
    """Issue keys; readers send up to 10,000 of them, taken from the whole table."""
    publish_market(settings)
    keys = [f"bg_{token_hex(ID_BYTES)}_{token_hex(SECRET_BYTES)}" for _ in range(count)]
    asyncio.run(_add_keys(settings, keys))
    sent = keys[:: max(1, count // SENT_KEYS)]
    script = settings.data / "keys.lua"
    script.write_text(SCRIPT.format(keys=", ".join(f'"{key}"' for key in sent)))
    return Request(SIGNALS_PATH, script=script)


async def _add_keys(settings: Settings, keys: Sequence[str]) -> None:
    database = open_database(settings.database_address, survives_power_cuts=False)
    digest = ApiKeys(database, load_pepper(settings), system_clock).digest
    rows: Iterator[Sequence[Value]] = (
        (key.split("_")[1], digest(key), f"{number}@example.com", system_clock())
        for number, key in enumerate(keys)
    )
    for _ in range(0, len(keys), BATCH):
        await database.write(lambda tx: tx.execute_many(_ADD_KEY, islice(rows, BATCH)))
    await database.close()


def _analyze(address: Address) -> None:
    """What the server does by itself a while after a large load."""
    if isinstance(address, str):
        asyncio.run(_run(address, "VACUUM (ANALYZE)"))


async def _run(url: str, *statements: str) -> Row:
    """Run statements as the superuser; return the first row of the last one."""
    connection = await asyncpg.connect(url)
    try:
        rows = [await connection.fetchrow(statement) for statement in statements]
    finally:
        await connection.close()
    return tuple(rows[-1] or ())


def _cost(server: PostgreSQL, service: Contender, target: str, seconds: int) -> bench.Figure:
    """What one worker at full speed needs, and the database for it."""
    parts = {"worker": service.child.workers(), "PostgreSQL": _backends(server)}
    before = {name: bench.cpu_seconds(each) for name, each in parts.items()}
    answered = load.requests_in(service.port, target, seconds, service.fields, service.script)
    spent = {name: 1e6 * (bench.cpu_seconds(each) - before[name]) for name, each in parts.items()}
    costs = ", ".join(f"{name} {each / answered:,.0f} µs" for name, each in spent.items())
    return bench.Figure("  at full speed", f"{answered / seconds:,.0f} per second, CPU: {costs}")


def _disk(url: str, rows: int, unit: str) -> bench.Figure:
    (size,) = asyncio.run(_run(url, *_SIZE))
    return bench.Figure(
        "  on disk, with indexes", f"{size / rows:,.0f} bytes for each of the {unit}"
    )


def _backends(server: PostgreSQL) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


async def _charts(urls: tuple[str, str], file: Path, plan: bench.Plan) -> list[bench.Figure]:
    """Read 60 days of one contract after the other, from two months and from two years of hours."""
    now = system_clock() // HOUR * HOUR
    contracts, hours = plan.size(CONTRACTS, QUICK_CONTRACTS), plan.size(HOURS, QUICK_HOURS)
    small, large, sqlite = [await make_database(address) for address in (*urls, file)]
    await _fill_readings(urls[0], FEW_CONTRACTS, FEW_HOURS, now)
    await _fill_readings(urls[1], contracts, hours, now)
    with closing(apsw.Connection(str(file))) as connection:
        series.fill(connection, FEW_CONTRACTS * FEW_HOURS, FEW_CONTRACTS, now)
    few = (small, FEW_CONTRACTS)
    cases = {"small": few, "large": (large, contracts), "twin": few}
    cases["sqlite"] = (sqlite, FEW_CONTRACTS)
    times: bench.Rates = {case: [] for case in cases}
    for number in range(plan.rounds):
        for case in list(cases)[:: 1 if number % 2 == 0 else -1]:
            times[case].append(await _chart_p50(*cases[case], now, number))
    for database in (small, large, sqlite):
        await database.close()
    (size,) = await _run(urls[1], *_SIZE)
    few_text, many = f"{FEW_CONTRACTS * FEW_HOURS:,}", f"{contracts * hours:,}"
    names = {"small": f"{few_text} readings", "large": f"{many} readings", "sqlite": "on SQLite"}
    return [
        *(
            bench.limited(f"chart of 60 days, {name}, p50", median(times[case]), "ms", digits=2)
            for case, name in names.items()
        ),
        *_growth(times, f"{many} / {few_text}", CHART_BOUND),
        bench.limited("  on disk, for each of the readings", size / contracts / hours, "bytes"),
    ]


async def _chart_p50(database: Database, contracts: int, now: int, number: int) -> float:
    spans = []
    for chart in range(number * CHARTS, (number + 1) * CHARTS):
        name = ContractName("bybit", f"C{chart % contracts}USDT")
        begun = time.perf_counter()
        await database.read(
            partial(reading_series, name=name, measure="funding", days=DAYS, now=now)
        )
        spans.append(1000 * (time.perf_counter() - begun))
    return median(spans)


async def _fill_readings(url: str, contracts: int, hours: int, now: int) -> None:
    """Load readings hour by hour, as they are recorded, and build the indexes afterwards."""
    primary_key, by_age = await _run(url, _INDEXES)
    await _run(
        url,
        "ALTER TABLE readings DROP CONSTRAINT readings_pkey",
        "DROP INDEX readings_by_age",
        _READINGS.format(now=now, hour=HOUR, hours=hours, contracts=contracts),
        "SET maintenance_work_mem = '256MB'",
        f"ALTER TABLE readings ADD CONSTRAINT readings_pkey {primary_key}",
        by_age,
        "VACUUM (ANALYZE) readings",
    )


async def _publishing(server: PostgreSQL, settings: Settings, count: int) -> bench.Figure:
    """What the server does when the collector publishes and one web worker loads that."""
    database, lease = await open_leased_database(settings)
    line = Line(settings, database, lease)
    await line.carry(POLL)
    backends = _backends(server)
    cpu, ((log,),) = bench.cpu_seconds(backends), await database.fetch(_LOG)
    for _ in range(count):
        await line.carry(POLL)
    spent, ((end,),) = bench.cpu_seconds(backends) - cpu, await database.fetch(_LOG)
    await line.close()
    await database.close()
    cost = f"CPU {1000 * spent / count:.1f} ms, log {(end - log) / count / 1000:,.0f} kB"
    return bench.Figure(f"publish {CONTRACTS} contracts, load them in one worker", cost)


_SIZE = ("CHECKPOINT", "SELECT pg_database_size(current_database())")
_LOG = "SELECT CAST(pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS BIGINT)"
_ADD_KEY = """
INSERT INTO api_keys (id, digest, email, mailbox, created_at) VALUES ($1, $2, $3, $3, $4)
"""
_INDEXES = """
SELECT pg_get_constraintdef(oid), pg_get_indexdef('readings_by_age'::regclass)
FROM pg_constraint WHERE conname = 'readings_pkey'
"""
_READINGS = """
INSERT INTO readings (venue, origin, resolution, contract, at, last_price, funding_rate_pct,
    funding_interval_hours, open_interest_usd, long_account_pct, open_interest_coins)
SELECT 'bybit', 'measured', 'hour', 'C' || number || 'USDT', {now} - back::bigint * {hour},
    100, 0.01 + 0.02 * sin(back / 9.0 + number), 8, 1e9, 50, 1e6
FROM generate_series({hours} - 1, 0, -1) AS back,
    LATERAL generate_series(0, {contracts} - 1 + 0 * back) AS number
"""

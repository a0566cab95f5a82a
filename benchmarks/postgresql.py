"""The service on PostgreSQL: whether reads stay as fast while tables grow, and SQLite beside it.

The server is a real one on this machine that waits for the disk. Each read is measured on a small
database, on the same one again as A/A control, on a large one, and on a small one of SQLite.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import NamedTuple

import asyncpg
import psutil
import uvloop
from pydantic import SecretStr

from barograph.keys.api_keys import ID_BYTES, SECRET_BYTES, ApiKeys, load_pepper
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Row, Value
from barograph.kit.opening import Address, open_database
from barograph.kit.timestamps import HOUR
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.markets.records import ContractName
from barograph.markets.series import reading_series
from barograph.markets.venues import BYBIT
from barograph.settings import Settings
from barograph.signals.documents import SIGNALS_PATH
from barograph_demo.servers.control import ServerAddress
from barograph_demo.servers.identity import demo_token
from benchmarks import bench, load
from benchmarks.charts import DAYS, fill_charts
from benchmarks.comparison import (
    comparison_target,
    entitled_settings,
    fill_service,
    identity_provider,
    latency_figure,
)
from benchmarks.hot_reads import Contender, alternate_latencies
from benchmarks.ledger import BATCH, FULL_ROUNDS, SHORT, WRITERS, append_rate, long_record
from benchmarks.market import benchmark_settings, make_database, publish_market
from benchmarks.market import open_database as open_new_database
from benchmarks.snapshot import POLL, Line
from benchmarks.unlimited import unlimited_service
from support.postgresql import PostgreSQL, running_postgresql

TITLE = "On PostgreSQL, and on SQLite beside it: median of the rounds (middle half)"
OPTIONS: Mapping[str, object] = {"fsync": "on", "shared_buffers": "1GB", "max_wal_size": "8GB"}
COMPARISON_BOUND, KEYS_BOUND, CHART_BOUND = 1.3, 1.2, 1.5
FEW_KEYS, MANY_KEYS, QUICK_KEYS = 100, 1_000_000, 10_000
SENT_KEYS = 10_000
FEW_CONTRACTS, CONTRACTS = 69, 700
HOURS, QUICK_HOURS = 14_286, 1_450
CHARTS = 60
COST_SECONDS = 3

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
    is_full = plan.rounds >= FULL_ROUNDS
    keys, hours = (MANY_KEYS, HOURS) if is_full else (QUICK_KEYS, QUICK_HOURS)
    with running_postgresql(options=OPTIONS) as server, identity_provider(folder) as provider:
        fill = partial(_fill_comparison, folder, provider)
        versions = (SHORT, long_record(plan))
        figures = [
            *(_appends(server, folder, writers) for writers in (1, WRITERS)),
            asyncio.run(_readings(server, _settings(server, folder), plan.snapshots)),
        ]
        comparison = Subject(
            "comparison", "versions", "history_url", versions, COMPARISON_BOUND, fill
        )
        signals = Subject(
            "signals with a key", "keys", "database_url", (FEW_KEYS, keys), KEYS_BOUND, _fill_keys
        )
        for subject in (comparison, signals):
            figures += _compare(subject, server, folder, provider, plan.rounds)
        urls, file = (server.create(), server.create()), folder / "charts.sqlite3"
        figures += uvloop.run(_charts(urls, file, hours, plan.rounds))
        figures.append(_disk(urls[1], CONTRACTS * hours, "readings"))
    return bench.Section(TITLE, figures)


def _appends(server: PostgreSQL, folder: Path, writers: int) -> bench.Figure:
    print(f"postgresql: appends by {writers}", file=sys.stderr)
    ours = append_rate(server.create(), writers)
    sqlite = append_rate(folder / f"appends-{writers}.sqlite3", writers)
    who = "one writer" if writers == 1 else f"{writers} writers"
    return bench.Figure(f"appends per second, {who}", f"{ours:,.0f}, on SQLite {sqlite:,.0f}")


def _compare(
    subject: Subject, server: PostgreSQL, folder: Path, provider: ServerAddress, rounds: int
) -> list[bench.Figure]:
    name, unit, setting, (small, large), bound, fill = subject
    filled: dict[str, tuple[Settings, Request]] = {}
    for case, size in (("small", small), ("large", large), ("sqlite", small)):
        print(f"postgresql: {name}, {case} with {size:,} {unit}", file=sys.stderr)
        settings = entitled_settings(folder / f"{unit}-{case}", provider)
        settings = settings.model_copy(update={} if case == "sqlite" else _urls(server))
        filled[case] = settings, fill(settings, size)
    filled["twin"] = filled["small"]
    targets = {case: request.target for case, (_, request) in filled.items()}
    with ExitStack() as stack:
        order = ("small", "large", "twin", "sqlite")
        services = {case: stack.enter_context(_service(*filled[case])) for case in order}
        found = alternate_latencies(services, targets, rounds)
        cost = _cost(server, services["large"], targets["large"])
    p50 = {case: [each.p50 for each in column] for case, column in found.items()}
    return [
        latency_figure(f"{name}, {small:,} {unit}", found["small"]),
        latency_figure(f"{name}, {large:,} {unit}", found["large"]),
        latency_figure(f"{name}, {small:,} on SQLite", found["sqlite"]),
        bench.at_most(
            f"  p50: {large:,} / {small:,}", bench.ratios(p50, "large", "small", "twin"), bound
        ),
        bench.at_most("  A/A control", bench.ratios(p50, "twin", "small")),
        bench.at_most("  p50: PostgreSQL / SQLite", bench.ratios(p50, "small", "sqlite")),
        cost,
        _disk(getattr(filled["large"][0], setting).get_secret_value(), large, unit),
    ]


def _settings(server: PostgreSQL, folder: Path) -> Settings:
    return benchmark_settings(folder).model_copy(update=_urls(server))


def _urls(server: PostgreSQL) -> dict[str, SecretStr]:
    """Two new databases, by the settings that name them."""
    return {name: SecretStr(server.create()) for name in ("database_url", "history_url")}


@contextmanager
def _service(settings: Settings, request: Request) -> Iterator[Contender]:
    """A web worker that uses these databases, on a port of its own."""
    settings = settings.model_copy(update={"port": bench.unused_port()})
    with unlimited_service(
        settings, lambda: bench.answers(settings.port, MARKET_STATE_PATH)
    ) as child:
        yield Contender(child, settings.port, request.fields, request.script)


def _fill_comparison(
    folder: Path, provider: ServerAddress, settings: Settings, count: int
) -> Request:
    target = comparison_target(*fill_service(settings, count))
    _analyze(settings.history_address)
    token = demo_token(folder, "feed", system_clock(), provider.url)
    return Request(target, (f"Authorization: Bearer {token}",))


def _fill_keys(settings: Settings, count: int) -> Request:
    """Issue keys; readers send up to 10,000 of them, taken from the whole table."""
    publish_market(settings)
    keys = [f"bg_{token_hex(ID_BYTES)}_{token_hex(SECRET_BYTES)}" for _ in range(count)]
    asyncio.run(_add_keys(settings, keys))
    _analyze(settings.database_address)
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
        rows = [await connection.fetchrow(each) for each in statements]
    finally:
        await connection.close()
    return tuple(rows[-1] or ())


def _cost(server: PostgreSQL, service: Contender, target: str) -> bench.Figure:
    """What one worker at full speed needs, and the database for it."""
    parts = {"worker": service.child.workers(), "PostgreSQL": _backends(server)}
    before = {name: bench.cpu_seconds(each) for name, each in parts.items()}
    answered = load.requests_in(service.port, target, COST_SECONDS, service.fields, service.script)
    spent = {name: 1e6 * (bench.cpu_seconds(each) - before[name]) for name, each in parts.items()}
    costs = ", ".join(f"{name} {each / answered:,.0f} µs" for name, each in spent.items())
    return bench.Figure(
        "  at full speed", f"{answered / COST_SECONDS:,.0f} per second, CPU: {costs}"
    )


def _disk(url: str, rows: int, unit: str) -> bench.Figure:
    (size,) = asyncio.run(_run(url, "CHECKPOINT", "SELECT pg_database_size(current_database())"))
    return bench.Figure(
        "  on disk, with indexes", f"{size / rows:,.0f} bytes for each of the {unit}"
    )


def _backends(server: PostgreSQL) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


async def _charts(urls: tuple[str, str], file: Path, hours: int, rounds: int) -> list[bench.Figure]:
    """Read 60 days of one contract after the other, from two months and from two years of hours."""
    now = system_clock() // HOUR * HOUR
    small, large, sqlite = [await make_database(address) for address in (*urls, file)]
    for database in (small, sqlite):
        await fill_charts(database, FEW_CONTRACTS, now)
    print(f"postgresql: charts, {CONTRACTS * hours:,} readings", file=sys.stderr)
    await _fill_readings(urls[1], hours, now)
    await _run(urls[0], "VACUUM (ANALYZE)")
    few = (small, FEW_CONTRACTS)
    cases = {"small": few, "large": (large, CONTRACTS), "twin": few}
    cases["sqlite"] = (sqlite, FEW_CONTRACTS)
    found: bench.Rates = {name: [] for name in cases}
    for number in range(-1, rounds):
        for name in list(cases)[:: 1 if number % 2 == 0 else -1]:
            spent = await _chart_p50(*cases[name], now, number)
            if number >= 0:
                found[name].append(spent)
    for database in (small, large, sqlite):
        await database.close()
    return _chart_figures(found, CONTRACTS * hours)


def _chart_figures(found: bench.Rates, readings: int) -> list[bench.Figure]:
    few, many = f"{FEW_CONTRACTS * (DAYS * 24 + 1):,}", f"{readings:,}"
    names = {"small": f"{few} readings", "large": f"{many} readings", "sqlite": f"{few} on SQLite"}
    return [
        *(
            bench.Figure(f"chart of 60 days, {name}", f"p50 {median(found[case]):.2f} ms")
            for case, name in names.items()
        ),
        bench.at_most(
            f"  p50: {many} / {few}", bench.ratios(found, "large", "small", "twin"), CHART_BOUND
        ),
        bench.at_most("  A/A control", bench.ratios(found, "twin", "small")),
        bench.at_most("  p50: PostgreSQL / SQLite", bench.ratios(found, "small", "sqlite")),
    ]


async def _chart_p50(database: Database, contracts: int, now: int, number: int) -> float:
    spans = []
    for each in range(number * CHARTS, (number + 1) * CHARTS):
        contract = f"C{each % contracts}USDT"
        begun = time.perf_counter()
        await database.read(
            partial(
                reading_series,
                name=ContractName("bybit", contract),
                measure="funding",
                days=DAYS,
                now=now,
            )
        )
        spans.append(1000 * (time.perf_counter() - begun))
    return median(spans)


async def _fill_readings(url: str, hours: int, now: int) -> None:
    """Load readings hour by hour, as they are recorded, and build the indexes afterwards."""
    primary_key, by_age = await _run(url, _INDEXES)
    await _run(
        url,
        "ALTER TABLE readings DROP CONSTRAINT readings_pkey",
        "DROP INDEX readings_by_age",
        _READINGS.format(venue=BYBIT, now=now, hour=HOUR, hours=hours, contracts=CONTRACTS),
        "SET maintenance_work_mem = '256MB'",
        f"ALTER TABLE readings ADD CONSTRAINT readings_pkey {primary_key}",
        by_age,
        "VACUUM (ANALYZE) readings",
        "CHECKPOINT",
    )


async def _readings(server: PostgreSQL, settings: Settings, count: int) -> bench.Figure:
    """What the server does when the collector publishes and one web worker loads that."""
    database, lease = await open_new_database(settings)
    line = Line(settings, database, lease)
    await line.carry(POLL)
    backends = _backends(server)
    cpu, ((log,),) = bench.cpu_seconds(backends), await database.fetch(_LOG)
    for _ in range(count):
        await line.carry(POLL)
    spent, ((end,),) = bench.cpu_seconds(backends) - cpu, await database.fetch(_LOG)
    await line.close()
    await database.close()
    name = f"publish {CONTRACTS} contracts, load them in one worker"
    cost = f"CPU {1000 * spent / count:.1f} ms, log {(end - log) / count / 1000:,.0f} kB"
    return bench.Figure(name, cost)


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
SELECT '{venue}', 'measured', 'hour', 'C' || number || 'USDT', {now} - back::bigint * {hour},
    100, 0.01 + 0.02 * sin(back / 9.0 + number), 8, 1e9, 50, 1e6
FROM generate_series({hours} - 1, 0, -1) AS back,
    LATERAL generate_series(0, {contracts} - 1 + 0 * back) AS number
"""

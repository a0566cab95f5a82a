"""The record of stances: what it costs to read, to append and to verify, long or short."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

import apsw
import rfc8785
import uvloop
from msgspec.structs import replace

from barograph.history.digest import GENESIS, history_digest, version_document
from barograph.history.ledger import VERSION_COLUMNS, Ledger, new_salt
from barograph.history.reader import HistoryReader
from barograph.history.records import Decision, Leg, LegEvidence, Proposal, Version
from barograph.history.verify import IntactRecord, verify
from barograph.kit.clock import system_clock
from barograph.kit.database import Row, Value
from barograph.kit.json import Json, canonical, digest
from barograph.kit.opening import Address, open_database
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import HOUR, iso_timestamp
from benchmarks import bench
from benchmarks.market import make_database

TITLE = "The record of stances: median of the rounds (middle half)"
KIND = "funding-regime-stance"
SHORT, LONG, QUICK_LONG = 1_000, 1_000_000, 50_000
LENGTH_BOUND, DRIVER_BOUND, DIGEST_BOUND = 1.3, 1.5, 1.5
READS = 500
DIGESTS = 300
APPENDS = 200
WRITERS = 8
VERIFIED = 10_000
BATCH = 5_000
PERIOD = 8 * HOUR
START = 1_700_006_400_000
FULL_ROUNDS = 10
"""From this many rounds on, the long record has a million versions."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Load a short and a long record and measure both in the same way."""
    long = long_record(plan)
    print(f"the record: loading {long:,} versions", file=sys.stderr)
    paths = {count: folder / f"history-{count}.sqlite3" for count in (SHORT, long)}
    for count, path in paths.items():
        load_record(path, count)
    # On the event loop of the service's server.
    figures = uvloop.run(_reads(paths[SHORT], paths[long], long, plan.rounds))
    figures.append(_digest_figure(plan.rounds))
    figures += [_appends(folder, writers) for writers in (1, WRITERS)]
    figures += [
        bench.Figure("verified per second", f"{asyncio.run(_verify(folder)):,.0f} versions"),
        bench.Figure("on disk", f"{paths[long].stat().st_size / long:,.0f} bytes per version"),
    ]
    for path in paths.values():
        path.unlink()
    return bench.Section(TITLE, figures)


def long_record(plan: bench.Plan) -> int:
    """How many versions the long record has."""
    return LONG if plan.rounds >= FULL_ROUNDS else QUICK_LONG


def proposal(number: int, kind: str = KIND) -> Proposal:
    """A stance that differs from those with other numbers."""
    start = START + number * PERIOD
    at = iso_timestamp(start)
    levels: dict[str, Json] = {"fundingPct": 0.01 + number / 1e7, "score": 0.5, "delta24h": -0.01}
    coins: dict[str, Json] = dict.fromkeys(("BTC", "ETH", "SOL", "XRP"), 0.0001 * number)
    inputs: dict[str, Json] = {"levels": levels, "fundingPct": coins, "interval_hours": 8}
    rationale = "Funding is inside the band that most days of the past month lie in."
    leg = Leg(
        period={"start": at, "end": iso_timestamp(start + PERIOD)},
        levels=levels,
        decision=Decision("neutral", "medium", rationale, "rules"),
        conditions=["levels.fundingPct >= 0.03: longs pay heavily", "levels.score >= 0.8: crowded"],
        method="funding-v1",
        evidence=LegEvidence("Bybit", at, inputs),
    )
    return Proposal(kind, f"{kind}:{at}", start, start + PERIOD, leg)


def _chain(count: int, kind: str) -> Iterator[tuple[Value, ...]]:
    """Rows as the ledger would write them, from one template."""
    version = _version(proposal(1), 1, "PREVIOUS")
    version = replace(version, kind=kind, leg_id="LEG", salt="SALT")
    pattern = canonical(version_document(version))
    previous = GENESIS
    for number in range(1, count + 1):
        leg_id = f"{kind}:{number}"
        text = (
            pattern.replace('"sequence":1', f'"sequence":{number}')
            .replace("LEG", leg_id)
            .replace("PREVIOUS", previous)
            .replace("SALT", new_salt())
        )
        own = digest(text)
        yield number, kind, number, leg_id, 1, version.issued_at, previous, own, text
        previous = own


def _version(proposal: Proposal, sequence: int, previous: str) -> Version:
    return Version(
        kind=proposal.kind,
        sequence=sequence,
        leg_id=proposal.leg_id,
        revision=1,
        issued_at=proposal.issued_at,
        expires_at=proposal.expires_at,
        leg=proposal.leg,
        previous_digest=previous,
        salt=new_salt(),
        history_digest="",
    )


def load_record(address: Address, count: int, kind: str = KIND) -> None:
    """Make a record of one kind; its versions expired long ago.

    With the guards in force, in large transactions, and without waiting for the disk.
    """
    asyncio.run(_load(address, count, kind))


async def _load(address: Address, count: int, kind: str) -> None:
    await _make(address)
    database = open_database(address, survives_power_cuts=False)
    columns = ("position", *VERSION_COLUMNS, "document")
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    sql = f"INSERT INTO stance_versions ({', '.join(columns)}) VALUES ({places})"
    rows = _chain(count, kind)
    for _ in range(0, count, BATCH):
        await database.write(lambda tx: tx.execute_many(sql, islice(rows, BATCH)))
    await database.close()


async def _make(address: Address) -> None:
    await (await make_database(address, "history")).close()


async def _reads(short: Path, long: Path, count: int, rounds: int) -> list[bench.Figure]:
    databases = {path: SQLiteDatabase(path) for path in (short, long)}
    ledger = Ledger(databases[long], system_clock)
    driver = driver_reader(long)

    async def by_driver() -> object:
        return driver(KIND)

    reads: dict[str, Callable[[], Awaitable[object]]] = {
        "short": lambda: HistoryReader(databases[short]).newest_documents(KIND),
        "driver": by_driver,
        "long": lambda: HistoryReader(databases[long]).newest_documents(KIND),
        "decoded": lambda: ledger.newest_versions(KIND),
    }
    newest = await HistoryReader(databases[long]).newest_documents(KIND)
    if list(newest.versions) != driver(KIND)[0]:
        raise bench.BenchmarkFailed("the driver reads something else")
    times: dict[str, list[float]] = {name: [] for name in reads}
    for number in range(rounds):
        for name in reads if number % 2 == 0 else reversed(reads):
            times[name].append(await _p50(reads[name]))
    for database in databases.values():
        await database.close()
    long_times = times["long"]
    return [
        bench.Figure(
            "latest two versions, p50", f"{median(long_times):.0f} µs at {count:,} versions"
        ),
        bench.at_most(
            f"  {count:,} versions / {SHORT:,}", bench.ratios(times, "long", "short"), LENGTH_BOUND
        ),
        bench.at_most(
            "  service / driver's own queries", bench.ratios(times, "long", "driver"), DRIVER_BOUND
        ),
        bench.Figure("  decoded by the ledger, p50", f"{median(times['decoded']):.0f} µs"),
    ]


def driver_reader(path: Path) -> Callable[[str], tuple[list[Row], list[Row]]]:
    """The same two queries in one transaction, by the driver alone."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    newest = (
        "SELECT sequence, leg_id, revision, issued_at, history_digest, document "
        "FROM stance_versions WHERE kind = ? ORDER BY sequence DESC LIMIT ?"
    )
    last_event = (
        "SELECT version_sequence, document, event_digest FROM stance_events WHERE kind = ? "
        "ORDER BY sequence DESC LIMIT 1"
    )

    def read(kind: str) -> tuple[list[Row], list[Row]]:
        connection.execute("BEGIN")
        versions = connection.execute(newest, (kind, 2)).fetchall()
        events = connection.execute(last_event, (kind,)).fetchall()
        connection.execute("COMMIT")
        return versions, events

    return read


async def _p50(read: Callable[[], Awaitable[object]]) -> float:
    spans = []
    for _ in range(READS):
        started = time.perf_counter_ns()
        await read()
        spans.append(time.perf_counter_ns() - started)
    return median(spans) / 1_000


def _digest_figure(rounds: int) -> bench.Figure:
    version = _version(proposal(1), 1, GENESIS)
    document = version_document(version)
    cases = {
        "bare": lambda: sha256(rfc8785.dumps(document)).hexdigest(),
        "own": lambda: history_digest(version),
    }
    costs = {name: partial(bench.milliseconds, work, DIGESTS) for name, work in cases.items()}
    rates = bench.ratios(bench.alternate(costs, rounds), "own", "bare")
    return bench.at_most("digest of a version / bare rfc8785 + sha256", rates, DIGEST_BOUND)


def _appends(folder: Path, writers: int) -> bench.Figure:
    rate = append_rate(folder / f"appends-{writers}.sqlite3", writers)
    who = "one writer" if writers == 1 else f"{writers} writers"
    return bench.Figure(f"appends per second, {who}", f"{rate:,.0f}")


def append_rate(address: Address, writers: int) -> float:
    """Appends per second; each writer is a process with its own legs, and all share one chain."""
    asyncio.run(_make(address))
    context = get_context("spawn")
    ready, done = context.Barrier(writers + 1), context.Barrier(writers + 1)
    started = [
        context.Process(target=_append_many, args=(address, number, ready, done))
        for number in range(writers)
    ]
    for process in started:
        process.start()
    ready.wait(60)
    began = time.perf_counter()
    done.wait(300)
    rate = writers * APPENDS / (time.perf_counter() - began)
    for process in started:
        process.join()
    return rate


def _append_many(address: Address, writer: int, ready: Barrier, done: Barrier) -> None:
    asyncio.run(_append_all(address, writer, ready, done))


async def _append_all(address: Address, writer: int, ready: Barrier, done: Barrier) -> None:
    database = open_database(address, write_ms=60_000)
    ledger = Ledger(database, system_clock)
    await ledger.count(KIND, "versions")
    ready.wait(60)
    for number in range(APPENDS):
        await ledger.append(proposal(writer * APPENDS + number))
    done.wait(300)
    await database.close()


async def _verify(folder: Path) -> float:
    path = folder / "verify.sqlite3"
    await _load(path, VERIFIED, KIND)
    database = SQLiteDatabase(path)
    started = time.perf_counter()
    assert isinstance(await verify(database), IntactRecord)
    spent = time.perf_counter() - started
    await database.close()
    return VERIFIED / spent

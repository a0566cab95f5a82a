"""The record of stances: what it costs to read and to verify, long or short."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

import uvloop
from msgspec.structs import replace

from barograph.history.digest import GENESIS, version_document
from barograph.history.ledger import VERSION_COLUMNS, new_salt
from barograph.history.reader import HistoryReader
from barograph.history.verify import IntactRecord, verify
from barograph.kit.database import Value
from barograph.kit.json import canonical, digest
from barograph.kit.opening import Address, open_database
from barograph.kit.sqlite import SQLiteDatabase
from barograph.stances import rates
from benchmarks import bench
from benchmarks.market import make_database
from support.comparisons import of_rates, version

TITLE = "The record of stances: median of the rounds (middle half)"
SHORT, LONG, QUICK_LONG = 1_000, 1_000_000, 2_000
LENGTH_BOUND = 1.3
READS = 500
VERIFIED = 10_000
BATCH = 5_000


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Load a short and a long record and measure both in the same way."""
    long = plan.size(LONG, QUICK_LONG)
    paths = {count: folder / f"history-{count}.sqlite3" for count in (SHORT, long)}
    for count, path in paths.items():
        asyncio.run(load_record(path, count))
    # On the event loop of the service's server.
    figures = uvloop.run(_reads(paths, plan.rounds))
    verified = plan.size(VERIFIED, SHORT)
    figures += [
        bench.rate("verified per second", asyncio.run(_verify(folder / "verify", verified))),
        bench.Figure("on disk", f"{paths[long].stat().st_size / long:,.0f} bytes per version"),
    ]
    return bench.Section(TITLE, figures)


async def load_record(address: Address, count: int) -> None:
    """A new record of rates stances, written with the guards active; nothing waits for the disk."""
    await (await make_database(address, "history")).close()
    database = open_database(address, survives_power_cuts=False)
    columns = ("position", *VERSION_COLUMNS, "document")
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    sql = f"INSERT INTO stance_versions ({', '.join(columns)}) VALUES ({places})"
    rows = _chain(count)
    for _ in range(0, count, BATCH):
        await database.write(lambda tx: tx.execute_many(sql, islice(rows, BATCH)))
    await database.close()


def _chain(count: int) -> Iterator[tuple[Value, ...]]:
    """Rows as the ledger would write them, from one template."""
    template = version(of_rates())
    names = {"leg_id": "LEG", "salt": "SALT", "previous_digest": "PREVIOUS"}
    pattern = canonical(version_document(replace(template, **names)))
    previous = GENESIS
    for number in range(1, count + 1):
        leg_id = f"{rates.KIND}:{number}"
        text = (
            pattern.replace('"sequence":1', f'"sequence":{number}')
            .replace("LEG", leg_id)
            .replace("PREVIOUS", previous)
            .replace("SALT", new_salt())
        )
        own = digest(text)
        yield number, rates.KIND, number, leg_id, 1, template.issued_at, previous, own, text
        previous = own


async def _reads(paths: dict[int, Path], rounds: int) -> list[bench.Figure]:
    """The read behind a comparison: the newest two texts, each checked against its digest."""
    databases = {count: SQLiteDatabase(path) for count, path in paths.items()}
    times: bench.Rates = {f"{count:,}": [] for count in databases}
    for number in range(rounds):
        for count in databases if number % 2 == 0 else reversed(databases):
            read = partial(HistoryReader(databases[count]).newest_documents, rates.KIND)
            times[f"{count:,}"].append(await _p50(read))
    for database in databases.values():
        await database.close()
    short, long = times
    ratios = bench.ratios(times, long, short)
    return [
        bench.limited(f"latest two versions of {long}, p50", median(times[long]), "µs"),
        bench.at_most(f"  {long} versions / {short}", ratios, LENGTH_BOUND),
    ]


async def _p50(read: Callable[[], Awaitable[object]]) -> float:
    spans = []
    for _ in range(READS):
        started = time.perf_counter_ns()
        await read()
        spans.append(time.perf_counter_ns() - started)
    return median(spans) / 1_000


async def _verify(path: Path, count: int) -> float:
    await load_record(path, count)
    database = SQLiteDatabase(path)
    started = time.perf_counter()
    assert isinstance(await verify(database), IntactRecord)
    spent = time.perf_counter() - started
    await database.close()
    return count / spent

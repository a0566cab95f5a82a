"""Tiles compared with a bare application, an audit of a long log, and stances with witnesses."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from barograph.collector.leader import collector_lease
from barograph.history.reader import HistoryReader
from barograph.kit import opening
from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph.stances.log_entries import LogEntries
from benchmarks import bench
from benchmarks.hot_reads import Contender
from benchmarks.ledger import FULL_ROUNDS, load_record
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.pages import compare_with_bare
from benchmarks.witnesses import delay_figures

TITLE = (
    "Public logs: a tile as a share of bare ASGI, an audit from outside, and witnesses that fail"
)
BARE_SHARE = 0.8
LONG, QUICK_LONG = 100_000, 1_000


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Serve a long log, compare one of its tiles, and audit it as an outsider does."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    count = LONG if plan.rounds >= FULL_ROUNDS else QUICK_LONG
    print(f"the log: loading {count:,} versions", file=sys.stderr)
    load_record(settings.history_path, count)
    asyncio.run(_log_versions(settings))
    target = "/history/events/tile/0/000"
    with bench.web_service(settings) as child:
        service = Contender(child, settings.port)
        figures = compare_with_bare(service, target, folder / "tile", plan.rounds, BARE_SHARE)
        figures += _audit(f"http://127.0.0.1:{settings.port}", count)
    return bench.Section(TITLE, [*figures, *delay_figures(plan, folder)])


async def _log_versions(settings: Settings) -> None:
    """Append the versions to the public log, as the collector does."""
    database = opening.open_database(settings.database_address)
    history = opening.open_database(settings.history_address)
    lease = collector_lease(database, system_clock)
    await lease.acquire()
    entries = LogEntries(database, HistoryReader(history), settings.base_url, system_clock)
    await entries.append(lease)
    await lease.release()
    await history.close()
    await database.close()


def _audit(address: str, count: int) -> list[bench.Figure]:
    command = (*bench.BAROGRAPH, "audit", address, "--json")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise bench.BenchmarkFailed(f"the audit failed: {ended.stdout}{ended.stderr}")
    found = json.loads(ended.stdout)
    return [
        bench.Figure(f"audit of {count:,} entries", f"{found['seconds']:,.1f} s"),
        bench.Figure("  requests", f"{found['log']['requests']:,}"),
    ]

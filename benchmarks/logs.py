"""The public log: a tile compared with a bare application, and an audit of a long log."""

import asyncio
import json
import subprocess
from pathlib import Path

from barograph.collector.leader import collector_lease
from barograph.history.reader import HistoryReader
from barograph.kit.clock import system_clock
from barograph.kit.opening import open_database
from barograph.settings import Settings
from barograph.stances.log_entries import LogEntries
from benchmarks import bench
from benchmarks.hot_reads import Contender, Read, compare_with_bare
from benchmarks.ledger import load_record
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Public log: a tile as a share of bare ASGI, and an audit from outside"
TILE = Read("/history/events/tile/0/000", 0.8)
LONG, QUICK_LONG = 100_000, 300
"""A tile has 256 entries."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Serve a long log, compare one of its tiles, and audit it as an outsider does."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    count = plan.size(LONG, QUICK_LONG)
    asyncio.run(_log_versions(settings, count))
    with bench.web_service(settings) as child:
        service = Contender(child, settings.port)
        figures = compare_with_bare(service, TILE, folder / "tile", plan.rounds)
        command = (*bench.BAROGRAPH, "audit", settings.base_url, "--json")
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise bench.BenchmarkFailed(f"the audit failed: {ended.stdout}{ended.stderr}")
    audit = json.loads(ended.stdout)
    text = f"{audit['seconds']:,.1f} s, {audit['log']['requests']:,} requests"
    return bench.Section(TITLE, [*figures, bench.Figure(f"audit of {count:,} entries", text)])


async def _log_versions(settings: Settings, count: int) -> None:
    """Append versions to the public log, as the collector does."""
    await load_record(settings.history_path, count)
    database = open_database(settings.database_address)
    history = open_database(settings.history_address)
    lease = collector_lease(database, system_clock)
    await lease.acquire()
    entries = LogEntries(database, HistoryReader(history), settings.base_url, system_clock)
    await entries.append(lease)
    await lease.release()
    await history.close()
    await database.close()

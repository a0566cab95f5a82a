"""The time until the first response; `venues.py` measures memory."""

import time
from pathlib import Path
from statistics import median

from barograph.markets.documents import MARKET_STATE_PATH
from benchmarks import bench
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Start-up: from the command to the first 200 of market-state"
STARTS = 5


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Start the web over a database that a collector has filled, then perhaps the demo twice."""
    publish_market(benchmark_settings(folder))
    starts = plan.size(STARTS, 1)
    seconds = median(_seconds_to_serve(folder) for _ in range(starts))
    figures = [bench.Figure("`barograph serve`", f"{seconds:.2f} s (median of {starts})")]
    if plan.is_full:
        figures += [
            bench.limited(f"`barograph demo`, {name}", _seconds_to_demo(folder), "s")
            for name in ("new folder", "again")
        ]
    return bench.Section(TITLE, figures)


def _seconds_to_serve(folder: Path) -> float:
    started = time.monotonic()
    with bench.web_service(benchmark_settings(folder)):
        return time.monotonic() - started


def _seconds_to_demo(folder: Path) -> float:
    """The whole demo; in a new folder, its 60 simulated days included."""
    port = bench.unused_port()
    command = (*bench.BAROGRAPH, "demo", "--port", str(port), "--data", str(folder / "demo"))
    started = time.monotonic()
    with bench.running(command, log=folder / "demo.log") as child:
        bench.until(lambda: bench.answers(port, MARKET_STATE_PATH), child)
        return time.monotonic() - started

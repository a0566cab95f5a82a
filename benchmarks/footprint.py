"""Memory, and the time until the first response."""

import sys
import time
from pathlib import Path
from statistics import median

from barograph.markets.documents import MARKET_STATE_PATH
from barograph.settings import Settings
from benchmarks import bench, load
from benchmarks.market import CONTRACTS, benchmark_settings, live_service, publish_market

TITLE = "Footprint: resident memory (and what belongs to the process alone), start-up"


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Measure the memory of the processes and the time that they take to start."""
    figures = [*_memory(folder / "live"), _start_up(folder / "web", plan.starts)]
    return bench.Section(TITLE, figures + (_demo(folder) if plan.demo else []))


def _memory(data: Path) -> list[bench.Figure]:
    """The collector and a web worker on a market of full size, after some polls and many reads."""
    print("memory", file=sys.stderr)
    data.mkdir()
    with live_service(data, wide=True) as live:
        load.requests_in(live.web_port, MARKET_STATE_PATH, 3)
        return [
            _memory_figure(f"web worker, {CONTRACTS} contracts", live.web),
            _memory_figure(f"collector, {CONTRACTS} contracts", live.collector),
        ]


def _memory_figure(name: str, child: bench.Child) -> bench.Figure:
    memory = child.memory()
    return bench.Figure(name, f"{memory.rss:.0f} MB ({memory.uss:.0f} MB)")


def _start_up(data: Path, starts: int) -> bench.Figure:
    """From the command to the first 200, over a database that a collector has filled."""
    print("start-up", file=sys.stderr)
    data.mkdir()
    publish_market(benchmark_settings(data))
    seconds = [_seconds_to_serve(benchmark_settings(data)) for _ in range(starts)]
    return bench.Figure(
        "`barograph serve` to the first 200", f"{median(seconds):.2f} s (median of {starts})"
    )


def _seconds_to_serve(settings: Settings) -> float:
    started = time.monotonic()
    with bench.web_service(settings):
        return time.monotonic() - started


def _demo(folder: Path) -> list[bench.Figure]:
    """The whole demo in a new folder, its 60 simulated days included, and once more."""
    print("demo", file=sys.stderr)
    first = _seconds_to_demo(folder)
    second = _seconds_to_demo(folder)
    return [
        bench.Figure("`barograph demo` to the first 200, new folder", f"{first:.1f} s"),
        bench.Figure("`barograph demo` to the first 200, again", f"{second:.1f} s"),
    ]


def _seconds_to_demo(folder: Path) -> float:
    port = bench.unused_port()
    command = (*bench.BAROGRAPH, "demo", "--port", str(port), "--data", str(folder / "demo"))
    started = time.monotonic()
    with bench.running(command, log=folder / "demo.log") as child:
        bench.until(lambda: bench.answers(port, MARKET_STATE_PATH), child)
        return time.monotonic() - started

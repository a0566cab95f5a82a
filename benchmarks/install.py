"""What a newcomer waits for, in a fresh clone and in a new demo: from the command to its prices."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from barograph.markets.documents import MARKET_STATE_PATH
from benchmarks import bench
from support.postgresql import running_postgresql

TITLE = "From the command to the first 200 of market-state, installation included"
RUN_TARGET, DEMO_TARGET = 15.0, 5.0
WAIT_SECONDS = 600


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Clone and run with empty caches and again, then start demos without installing anything."""
    if not plan.is_full:
        started = time.monotonic()
        subprocess.run(["make", "-C", _clone(folder), "install"], check=True, capture_output=True)
        return bench.Section(TITLE, [_figure("`make install`", time.monotonic() - started)])
    caches = {name: str(folder / name) for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR")}
    figures = []
    for state in ("empty", "warm"):
        (folder / state).mkdir()
        command = ("make", "-C", str(_clone(folder / state)), "run")
        seconds = _seconds_to_prices(command, folder, caches)
        figures.append(_figure(f"`make run` in a fresh clone, {state} caches", seconds, RUN_TARGET))
    demo = (*bench.BAROGRAPH, "demo", "--data", str(folder / "demo"))
    for name in ("new folder", "again"):
        seconds = _seconds_to_prices(demo, folder)
        figures.append(_figure(f"`barograph demo`, {name}", seconds, DEMO_TARGET))
    with running_postgresql() as server:
        names = ("BAROGRAPH_DATABASE_URL", "BAROGRAPH_HISTORY_URL")
        databases = {name: server.create() for name in names}
        demo = (*demo[:-1], str(folder / "demo-postgresql"))
        seconds = _seconds_to_prices(demo, folder, databases)
    figures.append(_figure("`barograph demo`, new folder, PostgreSQL", seconds, DEMO_TARGET))
    return bench.Section(TITLE, figures)


def _clone(folder: Path) -> Path:
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", bench.ROOT, clone], check=True)
    return clone


def _seconds_to_prices(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> float:
    port = bench.unused_port()
    arguments = (f"ARGS=--port {port}",) if command[0] == "make" else ("--port", str(port))
    started = time.monotonic()
    log = folder / "demo.log"
    with bench.running((*command, *arguments), log=log, environment=environment) as child:
        bench.until(lambda: bench.answers(port, MARKET_STATE_PATH), child, WAIT_SECONDS)
        return time.monotonic() - started


def _figure(name: str, seconds: float, target: float = float("inf")) -> bench.Figure:
    return bench.limited(name, seconds, "s", target)

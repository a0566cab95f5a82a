"""The large chart of a coin page in Chromium, with 60 days of minutes at three venues."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from threading import Thread
from typing import Any

from jinja2 import Environment, PackageLoader
from playwright.sync_api import Page, sync_playwright

from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.site.static_files import packaged_files
from benchmarks.bench import BenchmarkFailed, Figure, Plan, Section, limited

NAMES = ("binance", "bybit", "hyperliquid")
FIRST_DRAWING_MS = 300
PANNED_SECONDS = 3
PANNED_PX = 4
"""Per frame."""

_PAGE = """<!doctype html><html lang="en"><link rel="stylesheet" href="/static/site.css"><body>
<a data-find href="/search"></a>
{% include "chart_tool.html" %}"""
_DRAWN_AFTER = """() => {
    const [data] = performance.getEntriesByName("chart-data").slice(-1);
    const [drawn] = performance.getEntriesByName("chart-drawn");
    return drawn.startTime - data.startTime;
}"""
_PANNED = """([seconds, step]) => new Promise((resolve) => {
    const canvas = document.querySelector("canvas");
    canvas.focus();
    let [frames, direction] = [[], -step];
    const turn = (now) => {
        frames.push(now);
        if (frames.length % 60 === 0) direction = -direction;
        const wheel = new WheelEvent("wheel", { deltaX: direction, cancelable: true });
        if (step) canvas.dispatchEvent(wheel);
        if (now - frames[0] < seconds * 1000) return requestAnimationFrame(turn);
        const between = frames.slice(1).map((at, index) => at - frames[index]);
        const dropped = between.reduce((sum, each) => sum + Math.round(each * 60 / 1000) - 1, 0);
        resolve([dropped, frames.length - 1]);
    };
    requestAnimationFrame(turn);
})"""


def measure(plan: Plan, _: Path) -> Section:
    """The first drawing after the data arrived, and dropped frames while panning."""
    days = plan.size(60, 2)
    executable = shutil.which("chromium-headless-shell")
    if executable is None:
        raise BenchmarkFailed("chromium-headless-shell is missing: `make browser` installs it")
    drawn: list[float] = []
    counted: dict[int, list[list[int]]] = {0: [], PANNED_PX: []}
    with _served(_answers(days)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _round in range(plan.size(5, 1)):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            drawn.append(_first_drawing(page, address))
            for pixels, counts in counted.items():
                counts.append(page.evaluate(_PANNED, [plan.size(PANNED_SECONDS, 1), pixels]))
            page.close()
    resting, panning = (
        100 * sum(dropped for dropped, _shown in counts) / sum(map(sum, counts))
        for counts in counted.values()
    )
    return Section(
        f"The large chart: {days} days of minutes at three venues",
        [
            limited("first drawing, parsed data to pixels", median(drawn), "ms", FIRST_DRAWING_MS),
            limited("frames of 60 per s dropped while panning", panning, "%", resting + 1),
            Figure("  control: while nothing is drawn", f"{resting:.1f} %"),
        ],
    )


def _first_drawing(page: Page, address: str) -> float:
    page.goto(f"{address}/#chart=all")
    page.wait_for_selector("[data-drawn]", timeout=120_000)
    page.wait_for_timeout(500)
    after: float = page.evaluate(_DRAWN_AFTER)
    return after


def _answers(days: int) -> dict[str, bytes]:
    """The page and each series, by the start of its path."""
    now = int(time.time() * 1000) // MINUTE * MINUTE
    first = now - days * DAY
    grid = range(first, now, MINUTE)
    random = Random(days)
    moves = accumulate(random.gauss(0, 0.0004) for _ in grid)
    paths = [(at, 90_000 * (1 + move)) for at, move in zip(grid, moves, strict=True)]
    spot = [_point(at, [price + 5 * each for each in range(3)]) for at, price in paths]
    for each in spot:
        low, high = min(each["by_venue"]), max(each["by_venue"])
        each |= {"value": low, "low": low, "high": high, "price_venue": NAMES[0]}
    hours = range(first // HOUR * HOUR, now, HOUR)
    sides = [{"long_usd": random.expovariate(1e-6), "short_usd": 5e5} for _ in hours]
    flows = [_point(at, [1e6]) | each for at, each in zip(hours, sides, strict=True)]
    points = {
        "price": spot,
        "open-interest": [
            _point(at, [price * each for each in (1e5, 5e4, 2e4)]) for at, price in paths
        ],
        "funding": [_point(at, [random.gauss(0.01, 0.002) for _ in NAMES]) for at in grid],
        "liquidations": flows,
    }
    series = {
        f"/api/v1/series/{name}": json.dumps({"points": each, "next": None}).encode()
        for name, each in points.items()
    }
    return {**series, "/api/v1/events": b'{"events":[],"next":null}', "/": _page(first)}


def _point(at: int, values: list[float]) -> dict[str, Any]:
    total = {"value": sum(values), "by_venue": values, "venues": NAMES[: len(values)]}
    return {"at": iso_timestamp(at), "origin": "measured", "watched": 1, "missing": [], **total}


def _page(first: int) -> bytes:
    loader = PackageLoader("barograph.site")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    environment.globals |= {"root": "", "source": "a benchmark", "static": "/static/{}".format}
    venues = [{"name": each, "title": each, "liquidations": "all"} for each in NAMES]
    return (
        environment.from_string(_PAGE)
        .render(
            asset="BTC",
            symbol="BTC",
            chart_symbol="BTC",
            venue="",
            chart_venues=venues,
            listed=(first, None),
            has_minutes=True,
        )
        .encode()
    )


@contextmanager
def _served(answers: dict[str, bytes]) -> Iterator[str]:
    """A server of these answers and of the static files."""
    files = packaged_files()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name, is_file = path.rpartition("/")[2], path.startswith("/static/")
            body = files[name].pages[b""].body if is_file else answers.get(path, b"")
            kind = "text/javascript" if name.endswith(".js") else "text/css" if is_file else None
            self.send_response(200)
            self.send_header(
                "Content-Type",
                kind or "text/html" if path == "/" or is_file else "application/json",
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()

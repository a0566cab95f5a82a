"""The first minutes of a live service: how soon it is useful, and what it asks of each upstream.

The collector starts with an empty record on a simulated exchange of full size, with the default
settings. The simulated servers count the requests.
"""

import asyncio
import math
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple, cast

from barograph.board.board import latest_snapshot
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction, Work
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import SECOND
from barograph.markets.records import MAJORS, ContractName
from barograph.markets.samples import MEASURES
from barograph.markets.series import reading_series
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.signals.records import SIGNALS, UNKNOWN
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.exchange import LIMIT_MS, LIMIT_REQUESTS, ExchangeAddress
from benchmarks import bench
from benchmarks.market import CONTRACTS, collector, live_settings, running_exchange

TITLE = f"First start with {CONTRACTS} contracts and an empty record: seconds from `collect`"
MAJORS_SECONDS = 120
DAYS = 30
COMPLETE = 0.97
"""The share of a chart's points that must have a value: the newest come from live readings."""

NEED_TIME = frozenset({"liquidation-pressure", "btc-etf-flow", "cross-venue-funding"})
"""The signals whose history is not published, and the one that needs a second venue."""

LIMIT_PER_MINUTE = LIMIT_REQUESTS * 60 * SECOND // LIMIT_MS
LONGEST_SECONDS = 1800
LOOK_SECONDS = 0.25

Look = Work[bool]


class Upstreams(NamedTuple):
    """The simulated servers."""

    exchange: ExchangeAddress
    macro: ServerAddress

    def calls(self) -> Counter[tuple[str, str]]:
        """The requests so far, by server and endpoint."""
        found: Counter[tuple[str, str]] = Counter()
        for server, address in zip(self._fields, self, strict=True):
            counts = send_command(address.url, {"count": True})["requests"]
            for path, count in cast("dict[str, int]", counts).items():
                found[server, path.removeprefix("/v5/market/")] += count
        return found


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Start a collector on an empty folder and wait until it knows everything."""
    upstreams = Upstreams(
        ExchangeAddress(bench.HOST, bench.unused_port()),
        ServerAddress(bench.HOST, bench.unused_port()),
    )
    options = ("--macro-port", str(upstreams.macro.port))
    with running_exchange(folder, upstreams.exchange.port, *options, wide=True):
        settings = live_settings(folder, upstreams.exchange).model_copy(
            update={
                "accept_terms": "bybit,treasury,nyfed",
                "poll_seconds": Settings.model_fields["poll_seconds"].default,
                "rates_url": upstreams.macro.url,
            }
        )
        upgrade, environment = (*bench.BAROGRAPH, "db", "upgrade"), settings.to_environment()
        subprocess.run(upgrade, env=os.environ | environment, check=True, capture_output=True)
        started = time.monotonic()
        with collector(settings) as child:
            return bench.Section(TITLE, _figures(plan, settings, upstreams, child, started))


def _figures(
    plan: bench.Plan, settings: Settings, upstreams: Upstreams, child: bench.Child, started: float
) -> list[bench.Figure]:
    def seconds(look: Look) -> float:
        _wait(settings, look, child)
        return time.monotonic() - started

    figures = [bench.Figure("first price", f"{seconds(_has_price):.1f} s")]
    charts = seconds(_has_charts)
    met = charts <= MAJORS_SECONDS
    target = f"<= {MAJORS_SECONDS} s"
    name = f"charts of {DAYS} days for {', '.join(MAJORS)}"
    figures.append(bench.Figure(name, f"{charts:.1f} s", target, met))
    figures.append(bench.Figure("every signal that has a past", f"{seconds(_has_signals):.1f} s"))
    if plan.fill:
        figures.append(bench.Figure("every contract filled", f"{seconds(_is_filled):.0f} s"))
    filling = upstreams.calls()
    minutes = (time.monotonic() - started) / 60
    figures += _rates("per minute while filling", filling, minutes)
    if plan.fill:
        time.sleep(plan.window_seconds)
        steady = upstreams.calls() - filling
        figures += _rates("per minute afterwards", steady, plan.window_seconds / 60)
    return figures


def _rates(when: str, calls: Counter[tuple[str, str]], minutes: float) -> list[bench.Figure]:
    """The requests to each endpoint, and all requests to the exchange."""
    figures = [
        bench.Figure(f"{server} {name}, {when}", f"{math.ceil(count / minutes)}")
        for (server, name), count in sorted(calls.items())
    ]
    total = sum(count for (server, _), count in calls.items() if server == "exchange") / minutes
    limit = f"<= {LIMIT_PER_MINUTE // 4} (limit {LIMIT_PER_MINUTE})"
    met = total <= LIMIT_PER_MINUTE / 4
    return [*figures, bench.Figure(f"exchange in all, {when}", f"{total:.0f}", limit, met)]


def _wait(settings: Settings, look: Look, child: bench.Child) -> None:
    """Wait until the record contains what `look` looks for.

    Raises:
        BenchmarkFailed: it never does, or the collector ended.
    """

    async def work() -> None:
        database = SQLiteDatabase(settings.database_path, create=False)
        deadline = time.monotonic() + LONGEST_SECONDS
        try:
            while not await database.read(look):
                if time.monotonic() > deadline or not child.is_running:
                    log = child.log.read_text()
                    raise bench.BenchmarkFailed(f"the record stays incomplete; the log:\n{log}")
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await database.close()

    asyncio.run(work())


async def _has_price(tx: Transaction) -> bool:
    return await latest_snapshot(tx, PERPETUALS) is not None


async def _has_charts(tx: Transaction) -> bool:
    for base in MAJORS:
        for name in MEASURES:
            series = await reading_series(
                tx, ContractName("bybit", f"{base}USDT"), name, DAYS, system_clock()
            )
            known = sum(point.value is not None for point in series.points)
            if known < COMPLETE * len(series.points):
                return False
    return True


async def _has_signals(tx: Transaction) -> bool:
    found = await latest_snapshot(tx, SIGNALS)
    return found is not None and all(
        each.label != UNKNOWN for each in found.signals if each.key not in NEED_TIME
    )


async def _is_filled(tx: Transaction) -> bool:
    rows = await tx.fetch("SELECT count(DISTINCT contract) FROM backfills")
    return bool(rows[0][0] >= CONTRACTS)

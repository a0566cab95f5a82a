"""The first minutes of a live service: how soon it is useful, and what it asks of each upstream.

The collector starts with an empty record on a simulated exchange of full size, with the default
settings. The simulated servers count the requests.
"""

import asyncio
import os
import subprocess
import time
from math import inf
from pathlib import Path

from barograph.board.board import latest_snapshot
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction, Work
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import SECOND
from barograph.markets.samples import CHARTED
from barograph.markets.series import reading_series
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.signals.records import SIGNALS, UNKNOWN
from barograph.venues.records import MAJORS, ContractName
from barograph_demo.servers.exchange import LIMIT_MS, LIMIT_REQUESTS
from benchmarks import bench
from benchmarks.market import CONTRACTS, calls, collector, live_settings, running_world

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
STEADY_SECONDS = 15

Look = Work[bool]


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Start a collector on an empty folder and wait until it knows everything."""
    with running_world(folder, "macro", wide=True) as servers:
        settings = live_settings(folder, servers["bybit"]).model_copy(
            update={
                "accept_terms": "bybit,treasury,nyfed",
                "poll_seconds": Settings.model_fields["poll_seconds"].default,
                "rates_url": servers["macro"],
            }
        )
        upgrade, environment = (*bench.BAROGRAPH, "db", "upgrade"), settings.to_environment()
        subprocess.run(upgrade, env=os.environ | environment, check=True, capture_output=True)
        started = time.monotonic()
        with collector(settings) as child:
            figures = []
            for name, look, bound in LOOKS if plan.is_full else LOOKS[:2]:
                _wait(settings, look, child)
                seconds = time.monotonic() - started
                figures.append(bench.limited(name, seconds, "s", bound))
            filling = calls(servers["bybit"]).total()
            figures.append(_per_minute("while filling", filling * 60 / seconds))
            if plan.is_full:
                time.sleep(STEADY_SECONDS)
                steady = calls(servers["bybit"]).total() - filling
                figures.append(_per_minute("afterwards", steady * 60 / STEADY_SECONDS))
    return bench.Section(TITLE, figures)


def _per_minute(when: str, requests: float) -> bench.Figure:
    name, target = f"requests to the exchange per minute {when}", LIMIT_PER_MINUTE // 4
    return bench.limited(name, requests, f"(limit {LIMIT_PER_MINUTE})", target, 0)


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
        for name in CHARTED:
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


LOOKS: tuple[tuple[str, Look, float], ...] = (
    ("first price", _has_price, inf),
    (f"charts of {DAYS} days for {', '.join(MAJORS)}", _has_charts, MAJORS_SECONDS),
    ("every signal that has a past", _has_signals, inf),
    ("every contract filled", _is_filled, inf),
)

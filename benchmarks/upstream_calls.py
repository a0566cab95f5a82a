"""Upstream calls: readers must not cause any.

The simulated exchange counts its requests in two windows of the same length: without readers, then
with readers at full speed.
"""

import time
from collections import Counter
from pathlib import Path
from typing import cast

from barograph.markets.documents import MARKET_STATE_PATH
from barograph_demo.servers.control import send_command
from benchmarks import bench, load
from benchmarks.market import Live, live_service

TITLE = "Upstream calls per minute, counted by the exchange: without and with readers at full speed"
ENDPOINTS = ("tickers", "account-ratio", "instruments-info")
ONE_CALL = 1
"""Calls are timed, so one may fall just outside a window."""

SLOWER = 0.1
"""The rotation of account ratios pauses for a fixed time after each reply, so it is slower on a
busy machine. It must not be faster."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Count without readers, then equally long with readers."""
    with live_service(folder) as live:
        time.sleep(1)  # the first readings come in a burst
        without = _calls_in(live, plan.window_seconds)
        with load.readers(live.web_port, MARKET_STATE_PATH):
            time.sleep(0.5)
            with_readers = _calls_in(live, plan.window_seconds)
    names = [*ENDPOINTS, *sorted((without.keys() | with_readers.keys()) - set(ENDPOINTS))]
    return bench.Section(
        TITLE,
        [_figure(name, without[name], with_readers[name], plan.window_seconds) for name in names],
    )


def _figure(name: str, without: int, with_readers: int, seconds: int) -> bench.Figure:
    """Compare the calls of one endpoint; the printed text shows calls per minute."""
    slack = without * SLOWER if name == "account-ratio" else 0
    fewest = without - max(ONE_CALL, slack)
    minute = 60 / seconds
    return bench.Figure(
        name,
        f"{without * minute:.0f} and {with_readers * minute:.0f} "
        f"({without} and {with_readers} in {seconds} s)",
        "equal: +1 call, -10 %" if slack else "equal: +-1 call",
        fewest <= with_readers <= without + ONE_CALL,
    )


def _calls_in(live: Live, seconds: int) -> Counter[str]:
    before = _calls(live)
    time.sleep(seconds)
    return _calls(live) - before


def _calls(live: Live) -> Counter[str]:
    reply = send_command(live.exchange.url, {"count": True})
    counts = cast("dict[str, int]", reply["requests"])
    return Counter({path.rpartition("/")[2]: count for path, count in counts.items()})

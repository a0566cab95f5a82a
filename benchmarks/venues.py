"""A service that reads five venues: its calls against their limits, memory, CPU, and a switch.

The simulated venues count their requests twice for the same time: without readers, then with
readers at full speed, who must not cause any.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from barograph.kit.timestamps import MINUTE
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.venue_names import VENUE_NAMES
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID
from barograph_demo.configuration import venue_settings
from barograph_demo.servers.binance_rest import ENDPOINTS, LIMITS, WEIGHT
from barograph_demo.servers.control import send_command
from barograph_demo.servers.exchange import LIMIT_MS, LIMIT_REQUESTS
from barograph_demo.servers.gate import LIMIT_MS as GATE_MS
from barograph_demo.servers.gate import LIMIT_REQUESTS as GATE_REQUESTS
from barograph_demo.servers.hyperliquid import WEIGHT_PER_MINUTE
from barograph_demo.world.venues import ASTER, GATE
from benchmarks import bench, load
from benchmarks.market import CONTRACTS, calls, collector, live_settings, running_world

TITLE = f"Five venues, {CONTRACTS} contracts of Bybit: live calls per minute, memory, switch"
NAMES = VENUE_NAMES
LIMIT = {
    BYBIT: LIMIT_REQUESTS * MINUTE // LIMIT_MS,
    HYPERLIQUID: WEIGHT_PER_MINUTE,
    BINANCE: LIMITS[WEIGHT][0],
    ASTER: LIMITS[WEIGHT][0],
    GATE: GATE_REQUESTS * MINUTE // GATE_MS,
}
MEMORY_MB = 150
POLL_SECONDS, QUICK_POLL_SECONDS = 5, 2
COUNT_SECONDS, QUICK_SECONDS = 60, 4
READINGS = 3
LIVE = {"tickers", "instruments-info", "exchangeStatus", "metaAndAssetCtxs", "time", "price"}
LIVE |= {"premiumIndex", "exchangeInfo", "fundingInfo", "24hr", "contracts"}
PACED = {"account-ratio", "globalLongShortAccountRatio", "openInterest", "contract_stats"}
PACED |= {"liq_orders"}
"""Their rotation pauses after each reply, so it is slower on a busy machine, and the back-fill
reads some of them too."""

ONE_CALL = 1
"""Calls are timed, so one of each endpoint may fall just outside a window."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Run everything; the collector also back-fills an empty record."""
    seconds = plan.size(COUNT_SECONDS, QUICK_SECONDS)
    poll_seconds = plan.size(POLL_SECONDS, QUICK_POLL_SECONDS)
    with running_world(folder, *NAMES[1:], wide=True) as venues:
        places = {name: url.removeprefix("http://") for name, url in venues.items()}
        several = {
            **venue_settings(places),
            "accept_terms": ",".join(NAMES),
            "poll_seconds": poll_seconds,
        }
        settings = live_settings(folder, venues[BYBIT]).model_copy(update=several)
        with collector(settings) as collecting, bench.web_service(settings) as web:
            bench.until(partial(_read_all, settings.port), web)
            time.sleep(1)  # the first readings come in a burst
            cpu = collecting.cpu_seconds()
            without = _calls_in(venues, seconds)
            cpu = collecting.cpu_seconds() - cpu
            with load.readers(settings.port, MARKET_STATE_PATH):
                beside = _calls_in(venues, seconds)
            figures = [
                figure
                for venue in NAMES
                for figure in _call_figures(venue, without[venue], beside[venue], 60 / seconds)
            ]
            read = _read_all(settings.port)
            figures += [
                bench.Figure("contracts read", f"{read:,}", "about 2,000", None),
                bench.Figure("collector, CPU time per minute", f"{60 * cpu / seconds:.1f} s"),
                _memory("collector", collecting, MEMORY_MB),
                _memory("web worker", web, None),
                _switch(venues[BYBIT], settings.port, web, poll_seconds),
            ]
    return bench.Section(TITLE, figures)


def _read_all(port: int) -> int | None:
    """How many contracts are read, once every venue has answered."""
    answer = bench.answers(port, "/api/v1/venues")
    venues = [] if answer is None else json.loads(answer.body)["venues"]
    counts = [each["contracts"] for each in venues]
    return sum(counts) if counts and all(counts) else None


def _calls_in(venues: Mapping[str, str], seconds: int) -> dict[str, Counter[str]]:
    before = {venue: calls(venues[venue]) for venue in NAMES}
    time.sleep(seconds)
    return {venue: calls(venues[venue]) - before[venue] for venue in NAMES}


def _call_figures(
    venue: str, without: Counter[str], beside: Counter[str], minute: float
) -> Iterator[bench.Figure]:
    """The weight of live calls; history has calls of many weights, and a budget of its own."""
    live = _only(without, LIVE | PACED)
    weights = [count * _weight(venue, path) for path, count in live.items()]
    # Gate limits each endpoint by itself.
    used = (max(weights, default=0) if venue == GATE else sum(weights)) * minute
    text = f"{live.total() * minute:.0f} calls, weight {used:.0f}"
    yield bench.Figure(f"{venue}: live", text, f"<= {LIMIT[venue]:,}", used <= LIMIT[venue])
    few, many = _only(without, LIVE), _only(beside, LIVE)
    # Gate's contracts are read for the readings and, every ten minutes, as the listing.
    is_equal = all(
        abs(many[path] - few[path]) <= ONE_CALL * (1 + path.endswith("/contracts"))
        for path in few | many
    )
    counts = f"{few.total()} and {many.total()}"
    yield bench.Figure("  without and with readers", counts, "+-1 per endpoint", is_equal)


def _only(counts: Counter[str], endpoints: set[str]) -> Counter[str]:
    return Counter({path: n for path, n in counts.items() if path.rpartition("/")[2] in endpoints})


def _weight(venue: str, path: str) -> int:
    """The weight of a live call. Bybit and Gate count calls, as Binance does for its statistics."""
    if venue == HYPERLIQUID:
        return 2 if path == "exchangeStatus" else 20
    if venue in {BYBIT, GATE}:
        return 1
    endpoint = ENDPOINTS[path]
    return endpoint.weight({}) if endpoint.group == WEIGHT else 0


def _memory(name: str, child: bench.Child, bound: int | None) -> bench.Figure:
    rss, uss = child.memory()
    target = "" if bound is None else f"< {bound} MB"
    met = None if bound is None else rss < bound
    return bench.Figure(f"{name}, memory (its own)", f"{rss:.0f} MB ({uss:.0f} MB)", target, met)


def _switch(bybit: str, port: int, web: bench.Child, poll_seconds: int) -> bench.Figure:
    """From the first refusal that is possible to the first answer of the next venue."""
    started = time.monotonic()
    send_command(bybit, {"fault": "geo-block", "on": True})

    def switched() -> bool | None:
        answer = bench.answers(port, MARKET_STATE_PATH)
        return True if answer is not None and b"Hyperliquid" in answer.body else None

    bench.until(switched, web)
    seconds = time.monotonic() - started
    readings = math.ceil(seconds / poll_seconds)
    text, met = f"{seconds:.1f} s, {readings} readings", readings <= READINGS
    return bench.Figure("switch after a geo-block", text, f"<= {READINGS} readings", met)

"""Three venues: calls against their limits, decoding, memory, and a switch after a geo-block."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import MINUTE
from barograph.markets.venues import BINANCE, BYBIT, HYPERLIQUID
from barograph.settings import Settings
from barograph.upstream.binance.decode import (
    OpenInterest,
    contracts_of,
    decode_exchange_info,
    decode_rows,
    reading_of,
)
from barograph.upstream.hyperliquid import decode_contexts
from barograph_demo.servers.binance_rest import ENDPOINTS, LIMITS, WEIGHT, answer
from barograph_demo.servers.control import send_command
from barograph_demo.servers.exchange import LIMIT_MS, LIMIT_REQUESTS, ExchangeAddress
from barograph_demo.servers.faults import BinanceFaults, HyperliquidFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.hyperliquid import WEIGHT_PER_MINUTE, Info, InfoRequest
from barograph_demo.world.venues import VenueMarket
from benchmarks import bench
from benchmarks.market import CONTRACTS, Market, collector, running_exchange

TITLE = "Three venues: calls per minute, CPU time of decoding, memory, switch after a geo-block"
NAMES = (BYBIT, HYPERLIQUID, BINANCE)
WIDE = {HYPERLIQUID: 250, BINANCE: 570}
DECODE_MS = 20
MEMORY_MB = 150
POLL_SECONDS = 5
READINGS = 3
LIVE = {"tickers", "account-ratio", "instruments-info", "exchangeStatus", "metaAndAssetCtxs"}
LIVE |= {"time", "premiumIndex", "price", "openInterest", "exchangeInfo", "fundingInfo"}
LIVE |= {"globalLongShortAccountRatio"}


class Running(NamedTuple):
    """A service that reads three simulated venues."""

    ports: Mapping[str, int]
    collector: bench.Child
    web: bench.Child
    web_port: int


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Decode alone first, then run everything."""
    figures = [_decode(name, work, plan.snapshots) for name, work in _decoders(system_clock())]
    with _service(folder) as service:
        time.sleep(1)  # the first readings come in a burst
        seconds = 4 * plan.window_seconds
        before = {venue: _calls(service, venue) for venue in NAMES}
        time.sleep(seconds)
        for venue in NAMES:
            figures += _call_figures(venue, _calls(service, venue) - before[venue], 60 / seconds)
        rss, uss = service.collector.memory()
        text = f"{rss:.0f} MB ({uss:.0f} MB)"
        figures.append(bench.Figure("collector", text, f"< {MEMORY_MB} MB", rss < MEMORY_MB))
        figures.append(_switch(service))
    return bench.Section(TITLE, figures)


def _decoders(now: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What decodes a full reading of each venue, from the bytes of its replies."""
    market = Market(now)
    tickers = market.tickers(now)
    yield f"decode {CONTRACTS} contracts of Bybit", lambda: market.read(tickers, now)
    info = Info(market.world, HyperliquidFaults())
    meta, contexts = cast("Any", info.answer(InfoRequest("metaAndAssetCtxs"), now))
    pairs = [
        (a, c) for a, c in zip(meta["universe"], contexts, strict=True) if "isDelisted" not in a
    ]
    pairs = [pairs[each % len(pairs)] for each in range(WIDE[HYPERLIQUID])]
    named = [asset | {"name": f"C{number}"} for number, (asset, _) in enumerate(pairs)]
    body = msgspec.json.encode([meta | {"universe": named}, [context for _, context in pairs]])
    name = f"decode {WIDE[HYPERLIQUID]} contracts of Hyperliquid"
    yield name, lambda: decode_contexts(body, now)
    yield f"decode {WIDE[BINANCE]} contracts of Binance", _binance(market, now)


def _binance(market: Market, now: int) -> Callable[[], object]:
    venue = FaultyMarket(VenueMarket(market.world, BINANCE), BinanceFaults())

    def rows(path: str) -> list[dict[str, Any]]:
        body = msgspec.json.decode(answer(venue, path, {}, now)[1])
        return body if isinstance(body, list) else body["symbols"]

    listed = contracts_of(
        decode_exchange_info(msgspec.json.encode({"symbols": rows("/fapi/v1/exchangeInfo")})),
        decode_rows(msgspec.json.encode(rows("/fapi/v1/fundingInfo"))),
    ).kept
    names = sorted(listed)
    kept = {f"C{n}USDT": listed[names[n % len(names)]] for n in range(WIDE[BINANCE])}

    def widened(path: str) -> bytes:
        found = {row["symbol"]: row for row in rows(path)}
        copies = [found[names[n % len(names)]] | {"symbol": name} for n, name in enumerate(kept)]
        return msgspec.json.encode(copies)

    premium, prices = widened("/fapi/v1/premiumIndex"), widened("/fapi/v2/ticker/price")
    interests = dict.fromkeys(kept, OpenInterest(1000.0, now))
    return lambda: reading_of(
        decode_rows(premium), decode_rows(prices), kept, interests, oldest=0, doubtful=()
    )


def _decode(name: str, work: Callable[[], object], times: int) -> bench.Figure:
    middle = bench.milliseconds(work, times)
    return bench.Figure(name, f"{middle:.1f} ms", f"< {DECODE_MS} ms", middle < DECODE_MS)


@contextmanager
def _service(folder: Path) -> Iterator[Running]:
    ports = {venue: bench.unused_port() for venue in NAMES}
    bybit = ExchangeAddress(bench.HOST, ports[BYBIT])
    settings = Settings(
        port=bench.unused_port(),
        data=folder,
        accept_terms=",".join(NAMES),
        log_level="warning",
        venues=",".join(NAMES),
        exchange_rest_url=bybit.url,
        hyperliquid_url=f"http://{bench.HOST}:{ports[HYPERLIQUID]}",
        binance_rest_url=f"http://{bench.HOST}:{ports[BINANCE]}",
        poll_seconds=POLL_SECONDS,
    )
    others = [f"--{venue}-port={ports[venue]}" for venue in NAMES[1:]]
    with (
        running_exchange(folder, bybit.port, *others, wide=True),
        collector(settings) as collecting,
        bench.web_service(settings) as web,
    ):
        yield Running(ports, collecting, web, settings.port)


def _calls(service: Running, venue: str) -> Counter[str]:
    reply = send_command(f"http://{bench.HOST}:{service.ports[venue]}", {"count": True})
    return Counter(cast("dict[str, int]", reply["requests"]))


def _call_figures(venue: str, calls: Counter[str], minute: float) -> Iterator[bench.Figure]:
    """The weight of live calls; history has calls of many weights, and a budget of its own."""
    live = {path: count for path, count in calls.items() if path.rpartition("/")[2] in LIVE}
    history = (calls.total() - sum(live.values())) * minute
    weights = {path: count * _weight(venue, path) for path, count in live.items()}
    used = sum(weights.values()) * minute
    limit = {
        BYBIT: LIMIT_REQUESTS * MINUTE // LIMIT_MS,
        HYPERLIQUID: WEIGHT_PER_MINUTE,
        BINANCE: LIMITS[WEIGHT][0],
    }[venue]
    calls_text = f"{sum(live.values()) * minute:.0f} calls, weight {used:.0f}"
    yield bench.Figure(f"{venue}: live", calls_text, f"<= {limit:,}", used <= limit)
    yield bench.Figure(f"{venue}: history, first minute", f"{history:.0f} calls")


def _weight(venue: str, path: str) -> int:
    """The weight of a live call. Bybit counts calls, as Binance does for its statistics."""
    if venue == HYPERLIQUID:
        return 2 if path == "exchangeStatus" else 20
    if venue == BYBIT:
        return 1
    endpoint = ENDPOINTS[path]
    return endpoint.weight({}) if endpoint.group == WEIGHT else 0


def _switch(service: Running) -> bench.Figure:
    """From the first refusal that is possible to the first answer of the next venue."""
    started = time.monotonic()
    place = f"http://{bench.HOST}:{service.ports[BYBIT]}"
    send_command(place, {"fault": "geo-block", "on": True})

    def switched() -> bool | None:
        found = bench.answers(service.web_port, "/api/agent/market-state")
        return True if found is not None and b"Hyperliquid" in found.body else None

    bench.until(switched, service.web)
    seconds = time.monotonic() - started
    readings = math.ceil(seconds / POLL_SECONDS)
    text = f"{seconds:.1f} s, {readings} readings"
    return bench.Figure(
        "switch after a geo-block", text, f"<= {READINGS} readings", readings <= READINGS
    )

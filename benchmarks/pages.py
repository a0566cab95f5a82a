"""Cached pages, compared with a bare application that sends the same bytes."""

import sys
from contextlib import ExitStack
from pathlib import Path

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY
from barograph.markets.records import DayAgo, PastValues
from barograph.markets.symbols import index_of
from barograph.markets.view import FreshnessLimits, MarketView
from barograph.site.heatmap import SIZES, draw_map, fit, heatmap
from benchmarks import bench
from benchmarks.hot_reads import Contender, alternate, answer_of, lasting
from benchmarks.market import CONTRACTS, Market, benchmark_settings, publish_market
from benchmarks.peers import python_peer, store

TITLE = "Pages from the cache: requests per CPU-second of the server, as a share of bare ASGI"
BARE_SHARE = 0.8
HEATMAP_MS = 15
REPEATS = 60
TARGETS = ("/", "/markets", "/developers", "/heatmap")
COMPRESSED = ("Accept-Encoding: gzip",)


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Compare the compressed home page, a long table and a long text."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    figures: list[bench.Figure] = []
    with bench.web_service(settings) as child:
        service = Contender(child, settings.port, COMPRESSED)
        for number, target in enumerate(TARGETS if plan.demo else TARGETS[:1]):
            if ("content-encoding", "gzip") not in answer_of(service, target).headers:
                raise bench.BenchmarkFailed(f"{target} is not compressed")
            file = folder / f"page{number}"
            figures += compare_with_bare(service, target, file, plan.rounds, BARE_SHARE)
    return bench.Section(TITLE, [*figures, _heatmap()])


def _heatmap() -> bench.Figure:
    """The CPU time of both drawings of the heatmap."""
    now = system_clock()
    market = Market(now)
    reading = market.read(market.tickers(now), now)
    before = {each.contract: PastValues(now - DAY, each.last_price) for each in reading.contracts}
    limits = FreshnessLimits(DAY, DAY, DAY, 95)
    view = MarketView(now, limits, reading, index_of(reading), {}, None, None, DayAgo(before))

    def draw() -> None:
        cells = heatmap(view).cells
        for size in SIZES:
            draw_map(fit(cells, size), "funding", "")

    name = f"draw the heatmap of {CONTRACTS} contracts twice, CPU time"
    return bench.limited(name, bench.milliseconds(draw, REPEATS), "ms", HEATMAP_MS)


def compare_with_bare(
    service: Contender, target: str, file: Path, rounds: int, share: float | None, *, name: str = ""
) -> list[bench.Figure]:
    """Compare one response with a bare application that sends the same bytes."""
    print(f"bare: {target}", file=sys.stderr)
    answer = answer_of(service, target)
    store(file, target, answer)
    with ExitStack() as stack:
        bare, twin = (
            Contender(*stack.enter_context(python_peer("bare", target, file)), service.fields)
            for _ in range(2)
        )
        contenders = {"bare": bare, "service": service, "twin": twin}
        for each, contender in contenders.items():
            if lasting(answer_of(contender, target)) != lasting(answer):
                raise bench.BenchmarkFailed(f"{each} returns a different response to {target}")
        rates = alternate(contenders, target, rounds)
    return [
        *bench.between(rates, name or f"{target} / bare ASGI", "bare ASGI", share),
        bench.Figure("  bytes sent", f"{len(answer.body):,}"),
    ]

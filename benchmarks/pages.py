"""Cached pages, compared with a bare application that sends the same bytes."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY
from barograph.markets.records import DayAgo, PastValues
from barograph.markets.symbols import index_of
from barograph.markets.view import FreshnessLimits, MarketView
from barograph.site.heatmap import SIZES, draw_map, fit, heatmap
from benchmarks.hot_reads import Contender, alternate, answer_of, ratios
from benchmarks.market import CONTRACTS, Market, benchmark_settings, publish_market
from benchmarks.peers import python_peer, store
from benchmarks.plan import Plan
from benchmarks.processes import BenchmarkFailed, unused_port, web_service
from benchmarks.table import Figure, Section, at_least

TITLE = "Pages from the cache: requests per CPU-second of the server, as a share of bare ASGI"
BARE_SHARE = 0.8
HEATMAP_MS = 15
REPEATS = 60
TARGETS = ("/", "/markets", "/developers", "/heatmap")
COMPRESSED = ("Accept-Encoding: gzip",)


def measure(plan: Plan, folder: Path) -> Section:
    """Compare the compressed home page, a long table and a long text."""
    settings = benchmark_settings(folder, unused_port())
    publish_market(settings)
    figures: list[Figure] = []
    with web_service(settings) as child:
        service = Contender(child, settings.port, COMPRESSED)
        for number, target in enumerate(TARGETS if plan.demo else TARGETS[:1]):
            if ("content-encoding", "gzip") not in answer_of(service, target).headers:
                raise BenchmarkFailed(f"{target} is not compressed")
            file = folder / f"page{number}"
            figures += compare_with_bare(service, target, file, plan.rounds, BARE_SHARE)
    return Section(TITLE, [*figures, _heatmap()])


def _heatmap() -> Figure:
    """The CPU time of both drawings of the heatmap."""
    now = system_clock()
    market = Market(now)
    reading = market.read(market.tickers(now), now)
    before = {each.contract: PastValues(now - DAY, each.last_price) for each in reading.contracts}
    limits = FreshnessLimits(DAY, DAY, DAY, 95)
    view = MarketView(now, limits, reading, index_of(reading), {}, None, None, DayAgo(before))
    spent = []
    for _ in range(REPEATS):
        begun = time.process_time()
        cells = heatmap(view).cells
        for size in SIZES:
            draw_map(fit(cells, size), "funding", "")
        spent.append(1_000 * (time.process_time() - begun))
    middle = median(spent)
    return Figure(
        f"draw the heatmap of {CONTRACTS} contracts twice, CPU time",
        f"{middle:.1f} ms",
        f"<= {HEATMAP_MS} ms",
        middle <= HEATMAP_MS,
    )


def compare_with_bare(
    service: Contender, target: str, file: Path, rounds: int, share: float
) -> list[Figure]:
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
        for name, contender in contenders.items():
            if answer_of(contender, target).body != answer.body:
                raise BenchmarkFailed(f"{name} returns a different response to {target}")
        rates = alternate(contenders, target, rounds)
    return [
        at_least(f"{target} / bare ASGI", ratios(rates, "service", "bare", "twin"), share),
        at_least("  A/A control: bare ASGI / bare ASGI", ratios(rates, "twin", "bare")),
        Figure("  bytes sent", f"{len(answer.body):,}"),
    ]

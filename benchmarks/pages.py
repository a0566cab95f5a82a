"""Cached pages, compared with a bare application that sends the same bytes."""

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.hot_reads import Contender, alternate, answer_of, ratios
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import python_peer, store
from benchmarks.plan import Plan
from benchmarks.processes import BenchmarkFailed, unused_port, web_service
from benchmarks.table import Figure, Section, at_least

TITLE = "Pages from the cache: requests per CPU-second of the server, as a share of bare ASGI"
BARE_SHARE = 0.7
TARGETS = ("/", "/markets", "/developers")
COMPRESSED = ("Accept-Encoding: gzip",)


def measure(plan: Plan, folder: Path) -> Section:
    """Compare the compressed home page, a long table and a long text."""
    settings = benchmark_settings(folder, unused_port())
    publish_market(settings)
    figures: list[Figure] = []
    with web_service(settings) as child:
        service = Contender(child, settings.port, COMPRESSED)
        for number, target in enumerate(TARGETS[: len(plan.targets)]):
            if ("content-encoding", "gzip") not in answer_of(service, target).headers:
                raise BenchmarkFailed(f"{target} is not compressed")
            file = folder / f"page{number}"
            figures += compare_with_bare(service, target, file, plan.rounds, BARE_SHARE)
    return Section(TITLE, figures)


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

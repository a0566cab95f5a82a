"""Many readers of one hot document: web workers on this machine, and open connections."""

import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from barograph.markets.documents import MARKET_STATE_PATH
from benchmarks.hot_reads import ROUND_SECONDS, Contender, Rates, ratios
from benchmarks.load import latency_in, requests_in
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.plan import Plan
from benchmarks.processes import unused_port, web_service
from benchmarks.table import Figure, Section, at_least

TITLE = "Readers of market-state at full speed, wrk on the same cores: median of the rounds"
WORKERS = {"one worker": 1, "one worker again": 1, "two workers": 2}
BUSY_CONNECTIONS = 64
READERS = (1, 10, 100, 1_000)


def measure(plan: Plan, folder: Path) -> Section:
    """Requests per second by workers, then latency by connections."""
    ports = {name: unused_port() for name in WORKERS}
    publish_market(benchmark_settings(folder, unused_port()))
    with ExitStack() as stack:
        services = {}
        for name, workers in WORKERS.items():
            settings = benchmark_settings(folder, ports[name])
            settings = settings.model_copy(update={"workers": workers})
            services[name] = Contender(stack.enter_context(web_service(settings)), ports[name])
        figures = _throughput(ports, plan.rounds)
        rates = [services["one worker"].rate(MARKET_STATE_PATH) for _ in range(plan.rounds)]
        figures.append(Figure("one worker, requests per CPU-second", f"{median(rates):,.0f}"))
        for name in ("one worker", "two workers"):
            figures += [_latency(name, ports[name], readers, plan.rounds) for readers in READERS]
    return Section(TITLE, figures)


def _throughput(ports: dict[str, int], rounds: int) -> list[Figure]:
    print("readers: workers", file=sys.stderr)
    rates: Rates = {name: [] for name in ports}
    for number in range(-1, rounds):
        for name in list(ports)[:: 1 if number % 2 == 0 else -1]:
            rate = _rate(ports[name])
            if number >= 0:
                rates[name].append(rate)
    one, twin, two = rates
    return [
        *(Figure(f"{name}, requests per second", f"{median(rates[name]):,.0f}") for name in rates),
        at_least("  two workers / one", ratios(rates, two, one, twin)),
        at_least("  A/A control: one worker / one worker", ratios(rates, twin, one)),
    ]


def _rate(port: int) -> float:
    answered = requests_in(port, MARKET_STATE_PATH, ROUND_SECONDS, connections=BUSY_CONNECTIONS)
    return answered / ROUND_SECONDS


def _latency(name: str, port: int, readers: int, rounds: int) -> Figure:
    print(f"readers: {readers:,} connections to {name}", file=sys.stderr)
    found = [
        latency_in(port, MARKET_STATE_PATH, ROUND_SECONDS, connections=readers)
        for _ in range(rounds)
    ]
    p50, p99 = (median(column) for column in zip(*found, strict=True))
    return Figure(f"{name}, {readers:,} connections", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")

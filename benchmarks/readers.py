"""Many readers of one hot document: web workers on this machine, and open connections."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from barograph.markets.documents import MARKET_STATE_PATH
from benchmarks import bench, load
from benchmarks.hot_reads import ROUND_SECONDS, Contender
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Readers of market-state at full speed, wrk on the same cores: median of the rounds"
WORKERS = {"one worker": 1, "one worker again": 1, "two workers": 2}
BUSY_CONNECTIONS = 64
READERS = (1_000, 100, 10, 1)


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Requests per second by workers, then latency by connections."""
    publish_market(benchmark_settings(folder))
    with ExitStack() as stack:
        services = {}
        for name, workers in WORKERS.items():
            settings = benchmark_settings(folder).model_copy(update={"workers": workers})
            child = stack.enter_context(bench.web_service(settings))
            services[name] = Contender(child, settings.port)
        ports = {name: service.port for name, service in services.items()}
        figures = _throughput(ports, plan.rounds)
        rates = [services["one worker"].rate(MARKET_STATE_PATH) for _ in range(plan.rounds)]
        figures.append(bench.Figure("one worker, requests per CPU-second", f"{median(rates):,.0f}"))
        readers = READERS[: plan.size(len(READERS), 1)]
        for name in ("one worker", "two workers"):
            figures += [_latency(name, ports[name], each, plan.rounds) for each in readers]
    return bench.Section(TITLE, figures)


def _throughput(ports: dict[str, int], rounds: int) -> list[bench.Figure]:
    rates = bench.alternate({name: partial(_rate, port) for name, port in ports.items()}, rounds)
    one, twin, two = rates
    return [
        *(
            bench.Figure(f"{name}, requests per second", f"{median(rates[name]):,.0f}")
            for name in rates
        ),
        bench.at_least("  two workers / one", bench.ratios(rates, two, one, twin)),
        bench.at_least("  A/A control: one worker / one worker", bench.ratios(rates, twin, one)),
    ]


def _rate(port: int) -> float:
    answered = load.requests_in(
        port, MARKET_STATE_PATH, ROUND_SECONDS, connections=BUSY_CONNECTIONS
    )
    return answered / ROUND_SECONDS


def _latency(name: str, port: int, readers: int, rounds: int) -> bench.Figure:
    found = [
        load.latency_in(port, MARKET_STATE_PATH, ROUND_SECONDS, connections=readers)
        for _ in range(rounds)
    ]
    p50, p99 = (median(column) for column in zip(*found, strict=True))
    return bench.Figure(f"{name}, {readers:,} connections", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")

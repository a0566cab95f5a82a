"""Responses that the service has ready, compared with an application that sends the same bytes.

We count requests per second of the server's CPU time, because requests per second of wall time
depend on what else runs on the machine. Rate limits are counted, but never reached.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.documents import DERIVATIVES_PATH, MARKET_PATH, MARKET_STATE_PATH
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.signals.documents import SIGNALS_PATH
from benchmarks import bench, load
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import python_peer, store, unlimited_service

TITLE = "Hot reads: requests per CPU-second of the server, median of the rounds (middle half)"
FASTAPI_TIMES = 4
METRICS_SHARE = 0.97
ROUND_SECONDS = 1
COUNTED = ("date", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset")
"""Header fields that change with each response."""

COMPRESSED, PLAIN = ("Accept-Encoding: gzip",), ("Accept-Encoding: identity",)


class Read(NamedTuple):
    """A response, and the share of a bare application's rate that it should reach."""

    target: str
    share: float
    fields: tuple[str, ...] = ()


READS = (
    Read(MARKET_STATE_PATH, 0.85),
    Read("/", 0.8, COMPRESSED),
    Read(MARKET_PATH, 0.85),
    Read(f"{DERIVATIVES_PATH}?symbol=ETH", 0.85),
    Read(PERPETUALS_PATH, 0.85, COMPRESSED),
    Read(PERPETUALS_PATH, 0.85, PLAIN),
    Read(CROSS_PATH, 0.85, COMPRESSED),
    Read("/markets", 0.8, COMPRESSED),
    Read("/developers", 0.8, COMPRESSED),
    Read("/heatmap", 0.8, COMPRESSED),
    Read(SIGNALS_PATH, 0.7),
    Read("/badge/regime.svg", 0.8),
)


class Contender(NamedTuple):
    """A server that takes part in a comparison."""

    child: bench.Child
    port: int
    fields: tuple[str, ...] = ()
    """Additional header fields of its requests."""

    script: Path | None = None
    """What wrk sends instead of a GET."""

    def rate(self, target: str) -> float:
        """Requests per second of CPU time of its workers, user and system."""
        before = bench.cpu_seconds(self.child.workers())
        requests = load.requests_in(self.port, target, ROUND_SECONDS, self.fields, self.script)
        return requests / (bench.cpu_seconds(self.child.workers()) - before)

    def latency(self, target: str) -> load.Latency:
        """The latency of one reader that sends one request after the other."""
        return load.latency_in(self.port, target, ROUND_SECONDS, self.fields, self.script)

    def answer(self, target: str) -> bench.Answer:
        """Its response.

        Raises:
            BenchmarkFailed: there is none.
        """
        answer = bench.answers(self.port, target, self.fields)
        if answer is None:
            raise bench.BenchmarkFailed(f"no response to {target}")
        return answer


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Compare every response, then one without metrics and with them."""
    figures: list[bench.Figure] = []
    for read in READS[: plan.size(len(READS), 1)]:
        settings = benchmark_settings(folder)
        publish_market(settings)  # again, because parts of it grow old without a collector
        with unlimited_service(settings) as child:
            service = Contender(child, settings.port, read.fields)
            figures += compare_with_bare(service, read, folder / f"{len(figures)}", plan.rounds)
    return bench.Section(TITLE, [*figures, *_metrics(folder, plan.rounds)])


def compare_with_bare(
    service: Contender, read: Read, file: Path, rounds: int
) -> list[bench.Figure]:
    """Compare a response with bare applications; the first hot read also with FastAPI."""
    answer = service.answer(read.target)
    store(file, answer)
    others = ["fastapi"] if read.target == MARKET_STATE_PATH else []
    with ExitStack() as stack:
        bare, twin, *rest = (
            Contender(*stack.enter_context(python_peer(kind, read.target, file)), read.fields)
            for kind in ("bare", "bare", *others)
        )
        # The service goes between the two bare ones.
        contenders = {"bare": bare, "service": service, "twin": twin}
        for name, contender in contenders.items():
            if _lasting(contender.answer(read.target)) != _lasting(answer):
                raise bench.BenchmarkFailed(f"{name} returns a different {read.target}")
        contenders |= dict(zip(others, rest, strict=True))
        rates = alternate(contenders, read.target, rounds)
    name = f"{read.target} of {len(answer.body):,} bytes / bare ASGI"
    figures = bench.between(rates, name, "bare ASGI", read.share)
    if others:
        ratios = bench.ratios(rates, "service", *others)
        figures.append(bench.at_least(f"{read.target} / FastAPI model", ratios, FASTAPI_TIMES))
    return figures


def alternate(contenders: Mapping[str, Contender], target: str, rounds: int) -> bench.Rates:
    """Requests per CPU-second of all in turn."""
    rates = {name: partial(each.rate, target) for name, each in contenders.items()}
    return bench.alternate(rates, rounds)


def alternate_latencies(
    contenders: Mapping[str, Contender], targets: Mapping[str, str], rounds: int
) -> dict[str, list[load.Latency]]:
    """One reader at one server after the other."""
    reads = {name: partial(each.latency, targets[name]) for name, each in contenders.items()}
    return bench.alternate(reads, rounds)


def _metrics(folder: Path, rounds: int) -> list[bench.Figure]:
    with ExitStack() as stack:
        contenders = {}
        for name in ("without", "with", "without again"):
            port = bench.unused_port() if name == "with" else 0
            settings = benchmark_settings(folder).model_copy(update={"metrics_port": port})
            child = stack.enter_context(bench.web_service(settings))
            contenders[name] = Contender(child, settings.port)
        rates = alternate(contenders, MARKET_STATE_PATH, rounds)
    name = f"{MARKET_STATE_PATH} with metrics / without"
    return bench.between(rates, name, "without", METRICS_SHARE)


def _lasting(answer: bench.Answer) -> tuple[list[tuple[str, str]], bytes]:
    """A response without what changes with each one."""
    return sorted(each for each in answer.headers if each[0].lower() not in COUNTED), answer.body

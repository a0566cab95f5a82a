"""Hot reads: the service compared with three other servers that send the same response.

We count requests per second of the server's CPU time, because requests per second of wall time
depend on what else runs on the machine.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import bench, load
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import nginx_peer, nginx_program, python_peer, store

TITLE = "Hot reads: requests per CPU-second of the server, median of the rounds (middle half)"
NO_NGINX = "nginx is missing: run `make load-tools`"
BARE_SHARE = 0.85
FASTAPI_TIMES = 4
ROUND_SECONDS = 1
COUNTED = ("date", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset")
"""Header fields that change with each response."""


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


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Compare every hot read."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    figures: list[bench.Figure] = []
    with bench.web_service(settings) as child:
        for number, target in enumerate(plan.targets):
            service = Contender(child, settings.port)
            figures += _compare(service, target, folder / f"answer{number}", plan.rounds)
    return bench.Section(TITLE, figures)


def _compare(service: Contender, target: str, file: Path, rounds: int) -> list[bench.Figure]:
    print(f"hot reads: {target}", file=sys.stderr)
    answer = answer_of(service, target)
    store(file, target, answer)
    with _contenders(service, target, file) as contenders:
        _check_same(contenders, target, answer)
        rates = alternate(contenders, target, rounds)
    name = target.removeprefix("/api/agent/")
    return [
        *bench.between(rates, f"{name} / bare ASGI", "bare ASGI", BARE_SHARE),
        bench.at_least(
            f"{name} / FastAPI model", bench.ratios(rates, "service", "fastapi"), FASTAPI_TIMES
        ),
        bench.at_least(f"{name} / nginx file", bench.ratios(rates, "service", "nginx"))
        if "nginx" in rates
        else bench.Figure(f"{name} / nginx file", NO_NGINX),
    ]


@contextmanager
def _contenders(service: Contender, target: str, file: Path) -> Iterator[dict[str, Contender]]:
    """All servers with this response; the twin is a second bare application."""
    with ExitStack() as stack:
        bare, twin, fastapi = (
            Contender(*stack.enter_context(python_peer(kind, target, file)))
            for kind in ("bare", "bare", "fastapi")
        )
        # The service goes between the two bare ones and beside FastAPI.
        peers = {"bare": bare, "service": service, "twin": twin, "fastapi": fastapi}
        if nginx_program() is not None:
            peers["nginx"] = Contender(*stack.enter_context(nginx_peer(target, file)))
        yield peers


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


def _check_same(contenders: Mapping[str, Contender], target: str, answer: bench.Answer) -> None:
    """Compare only servers that send the same response."""
    for name, contender in contenders.items():
        found = answer_of(contender, target)
        if msgspec.json.decode(found.body) != msgspec.json.decode(answer.body):
            raise bench.BenchmarkFailed(f"{name} returns a different response to {target}")
        if name in {"bare", "twin"} and lasting(found) != lasting(answer):
            raise bench.BenchmarkFailed(f"{name} sends other headers than the service")


def lasting(answer: bench.Answer) -> tuple[list[tuple[str, str]], bytes]:
    """A response without what changes with each one."""
    return sorted(each for each in answer.headers if each[0].lower() not in COUNTED), answer.body


def answer_of(contender: Contender, target: str) -> bench.Answer:
    """The response of a server.

    Raises:
        BenchmarkFailed: there is none.
    """
    answer = bench.answers(contender.port, target, contender.fields)
    if answer is None:
        raise bench.BenchmarkFailed(f"no response to {target}")
    return answer

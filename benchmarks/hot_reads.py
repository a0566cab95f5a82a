"""Hot reads: the service compared with three other servers that send the same response.

We count requests per second of the server's CPU time, because requests per second of wall time
depend on what else runs on the machine.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from benchmarks.load import Latency, latency_in, requests_in
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import nginx_peer, nginx_program, python_peer, store
from benchmarks.plan import Plan
from benchmarks.processes import (
    Answer,
    BenchmarkFailed,
    Child,
    answers,
    unused_port,
    web_service,
)
from benchmarks.table import Figure, Section, at_least

TITLE = "Hot reads: requests per CPU-second of the server, median of the rounds (middle half)"
NO_NGINX = "nginx is missing: run `make load-tools`"
BARE_SHARE = 0.85
FASTAPI_TIMES = 4
ROUND_SECONDS = 1

Rates = dict[str, list[float]]


class Contender(NamedTuple):
    """A server that takes part in a comparison."""

    child: Child
    port: int
    fields: tuple[str, ...] = ()
    """Additional header fields of its requests."""

    script: Path | None = None
    """What wrk sends instead of a GET."""

    def rate(self, target: str) -> float:
        """Requests per second of CPU time of its workers, user and system."""
        before = self._cpu_seconds()
        requests = requests_in(self.port, target, ROUND_SECONDS, self.fields, self.script)
        return requests / (self._cpu_seconds() - before)

    def latency(self, target: str) -> Latency:
        """The latency of one reader that sends one request after the other."""
        return latency_in(self.port, target, ROUND_SECONDS, self.fields, self.script)

    def _cpu_seconds(self) -> float:
        times = [worker.cpu_times() for worker in self.child.workers()]
        return sum(each.user + each.system for each in times)


def measure(plan: Plan, folder: Path) -> Section:
    """Compare every hot read."""
    settings = benchmark_settings(folder, unused_port())
    publish_market(settings)
    figures: list[Figure] = []
    with web_service(settings) as child:
        for number, target in enumerate(plan.targets):
            service = Contender(child, settings.port)
            figures += _compare(service, target, folder / f"answer{number}", plan.rounds)
    return Section(TITLE, figures)


def _compare(service: Contender, target: str, file: Path, rounds: int) -> list[Figure]:
    print(f"hot reads: {target}", file=sys.stderr)
    answer = answer_of(service, target)
    store(file, target, answer)
    with _contenders(service, target, file) as contenders:
        _check_same(contenders, target, answer)
        rates = alternate(contenders, target, rounds)
    name = target.removeprefix("/api/agent/")
    return [
        at_least(f"{name} / bare ASGI", ratios(rates, "service", "bare", "twin"), BARE_SHARE),
        at_least("  A/A control: bare ASGI / bare ASGI", ratios(rates, "twin", "bare")),
        at_least(f"{name} / FastAPI model", ratios(rates, "service", "fastapi"), FASTAPI_TIMES),
        at_least(f"{name} / nginx file", ratios(rates, "service", "nginx"))
        if "nginx" in rates
        else Figure(f"{name} / nginx file", NO_NGINX),
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


def alternate(contenders: dict[str, Contender], target: str, rounds: int) -> Rates:
    """Measure all in turn, forwards and backwards, after a warm-up round."""
    for contender in contenders.values():
        contender.rate(target)
    rates: Rates = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders) if number % 2 == 0 else list(reversed(contenders))
        for name in names:
            rates[name].append(contenders[name].rate(target))
    return rates


def alternate_latencies(
    contenders: Mapping[str, Contender], targets: Mapping[str, str], rounds: int
) -> dict[str, list[Latency]]:
    """One reader at one server after the other, forwards and backwards, after a warm-up round."""
    found: dict[str, list[Latency]] = {name: [] for name in contenders}
    for number in range(-1, rounds):
        for name in list(contenders)[:: 1 if number % 2 == 0 else -1]:
            latency = contenders[name].latency(targets[name])
            if number >= 0:
                found[name].append(latency)
    return found


def ratios(rates: Rates, ours: str, *theirs: str) -> list[float]:
    """The ratio of each round; several others count by their mean."""
    others = [fmean(each) for each in zip(*(rates[name] for name in theirs), strict=True)]
    return [one / other for one, other in zip(rates[ours], others, strict=True)]


def _check_same(contenders: dict[str, Contender], target: str, answer: Answer) -> None:
    """Compare only servers that send the same response."""
    for name, contender in contenders.items():
        found = answer_of(contender, target)
        if msgspec.json.decode(found.body) != msgspec.json.decode(answer.body):
            raise BenchmarkFailed(f"{name} returns a different response to {target}")
        if name in {"bare", "twin"} and _undated(found) != _undated(answer):
            raise BenchmarkFailed(f"{name} sends other headers than the service")


def _undated(answer: Answer) -> tuple[list[tuple[str, str]], bytes]:
    return sorted(field for field in answer.headers if field[0].lower() != "date"), answer.body


def answer_of(contender: Contender, target: str) -> Answer:
    """The response of a server.

    Raises:
        BenchmarkFailed: there is none.
    """
    answer = answers(contender.port, target, contender.fields)
    if answer is None:
        raise BenchmarkFailed(f"no response to {target}")
    return answer

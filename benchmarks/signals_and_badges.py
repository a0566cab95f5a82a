"""Signals and badges: the service beside a bare application that gives the same answer.

A reader at full speed would spend the anonymous allowance in a blink, so the worker that is
measured has an ample one; every request is counted all the same.

Run as `python -m benchmarks.signals_and_badges` with the service's settings in the environment.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from granian.server import Server

import barograph.limits.callers
import barograph.web.server
from barograph.kit.http import ASGIApp
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import RateLimit
from barograph.settings import Settings
from barograph.signals.documents import SIGNALS_PATH
from benchmarks.hot_reads import Contender, alternate, answer_of, ratios
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import python_peer, store
from benchmarks.plan import Plan
from benchmarks.processes import BenchmarkFailed, Child, answers, running, until, unused_port
from benchmarks.table import Figure, Section, at_least

TITLE = "Signals and badges: requests per CPU-second, against a bare ASGI reply"
SIGNALS_SHARE = 0.7
BADGE_SHARE = 0.8
BADGE_PATH = "/badge/regime.svg"
AMPLE = RateLimit("anon", 100_000_000, HOUR)
# Each answer says anew how much is left.
COUNTED = ("date", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset")


def measure(plan: Plan, folder: Path) -> Section:
    """Signals with both stores of allowances, and a badge."""
    figures = _compare(plan, folder, "memory", SIGNALS_PATH, SIGNALS_SHARE)
    figures += _compare(plan, folder, "sqlite", SIGNALS_PATH, None)
    figures += _compare(plan, folder, "memory", BADGE_PATH, BADGE_SHARE)
    return Section(TITLE, figures)


def _compare(
    plan: Plan, folder: Path, limits: str, target: str, share: float | None
) -> list[Figure]:
    print(f"signals and badges: {target}, {limits}", file=sys.stderr)
    place = folder / f"{limits}{target.replace('/', '-')}"
    place.mkdir()
    settings = benchmark_settings(place, unused_port()).model_copy(update={"limits": limits})
    publish_market(settings)
    file = place / "answer"
    with _ample_service(settings) as child:
        service = Contender(child, settings.port)
        answer = answer_of(service, target)
        store(file, target, answer)
        with python_peer("bare", target, file) as first, python_peer("bare", target, file) as twin:
            peers = {"bare": Contender(*first), "service": service, "twin": Contender(*twin)}
            for name, peer in peers.items():
                if _lasting(peer, target) != _lasting(service, target):
                    raise BenchmarkFailed(f"{name} returns a different response to {target}")
            rates = alternate(peers, target, plan.rounds)
    counted = f", counted in {limits}" if target == SIGNALS_PATH else ""
    return [
        at_least(f"{target}{counted}", ratios(rates, "service", "bare", "twin"), share),
        at_least("  A/A control: bare ASGI / bare ASGI", ratios(rates, "twin", "bare")),
    ]


def _lasting(contender: Contender, target: str) -> tuple[list[tuple[str, str]], bytes]:
    """What an answer says, but for the count."""
    answer = answer_of(contender, target)
    return sorted(each for each in answer.headers if each[0].lower() not in COUNTED), answer.body


@contextmanager
def _ample_service(settings: Settings) -> Iterator[Child]:
    command = (sys.executable, "-m", "benchmarks.signals_and_badges")
    environment = settings.to_environment()
    with running(command, log=settings.data / "web.log", environment=environment) as child:
        until(lambda: answers(settings.port, "/api/agent/market-state"), child)
        yield child


def ample_web_app() -> ASGIApp:
    """The product's own application, with the ample allowance in this process."""
    patch.object(barograph.limits.callers, "ANONYMOUS", AMPLE).start()
    return barograph.web.server.web_app()


def _serve() -> None:
    die_with_parent()
    target = "benchmarks.signals_and_badges:ample_web_app"
    with patch.object(
        barograph.web.server, "Server", lambda _, **options: Server(target, **options)
    ):
        barograph.web.server.run_server(Settings.from_environment(os.environ))


if __name__ == "__main__":
    _serve()

"""Signals and badges, compared with a bare application that sends the same response.

The service has a rate limit that a reader at full speed does not reach.
"""

import sys
from pathlib import Path

from barograph.markets.documents import MARKET_STATE_PATH
from barograph.signals.documents import SIGNALS_PATH
from benchmarks.hot_reads import Contender, alternate, answer_of, ratios
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import python_peer, store
from benchmarks.plan import Plan
from benchmarks.processes import BenchmarkFailed, answers, unused_port
from benchmarks.table import Figure, Section, at_least
from benchmarks.unlimited import unlimited_service

TITLE = "Signals and badges: requests per CPU-second, against a bare ASGI reply"
SIGNALS_SHARE = 0.7
BADGE_SHARE = 0.8
BADGE_PATH = "/badge/regime.svg"
# These change with each response.
COUNTED = ("date", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset")


def measure(plan: Plan, folder: Path) -> Section:
    """Signals with both stores of rate limits, and a badge."""
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
    proxies = {"trusted_proxies": "192.0.2.1" if limits == "sqlite" else ""}
    settings = benchmark_settings(place, unused_port()).model_copy(update=proxies)
    publish_market(settings)
    file = place / "answer"
    with unlimited_service(settings, lambda: answers(settings.port, MARKET_STATE_PATH)) as child:
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
    """A response without its count."""
    answer = answer_of(contender, target)
    return sorted(each for each in answer.headers if each[0].lower() not in COUNTED), answer.body

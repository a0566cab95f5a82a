"""Signals and badges, compared with a bare application that sends the same response.

The service has a rate limit that a reader at full speed does not reach.
"""

from functools import partial
from pathlib import Path

from barograph.markets.documents import MARKET_STATE_PATH
from barograph.signals.documents import SIGNALS_PATH
from benchmarks import bench
from benchmarks.hot_reads import Contender
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.pages import compare_with_bare
from benchmarks.unlimited import unlimited_service

TITLE = "Signals and badges: requests per CPU-second, against a bare ASGI reply"
SIGNALS_SHARE = 0.7
BADGE_SHARE = 0.8
BADGE_PATH = "/badge/regime.svg"


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Signals with both stores of rate limits, and a badge."""
    figures = _compare(plan, folder, "memory", SIGNALS_PATH, SIGNALS_SHARE)
    figures += _compare(plan, folder, "sqlite", SIGNALS_PATH, None)
    figures += _compare(plan, folder, "memory", BADGE_PATH, BADGE_SHARE)
    return bench.Section(TITLE, figures)


def _compare(
    plan: bench.Plan, folder: Path, limits: str, target: str, share: float | None
) -> list[bench.Figure]:
    place = folder / f"{limits}{target.replace('/', '-')}"
    place.mkdir()
    proxies = {"trusted_proxies": "192.0.2.1" if limits == "sqlite" else ""}
    settings = benchmark_settings(place).model_copy(update=proxies)
    publish_market(settings)
    counted = f", counted in {limits}" if target == SIGNALS_PATH else ""
    ready = partial(bench.answers, settings.port, MARKET_STATE_PATH)
    with unlimited_service(settings, ready) as child:
        service, file = Contender(child, settings.port), place / "answer"
        return compare_with_bare(
            service, target, file, plan.rounds, share, name=f"{target}{counted}"
        )

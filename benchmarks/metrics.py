"""What metrics cost hot reads: two services that measure every request, beside two that don't."""

from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from barograph.settings import Settings
from benchmarks import bench
from benchmarks.hot_reads import Contender, alternate
from benchmarks.market import benchmark_settings, publish_market

TITLE = "Metrics: requests per CPU-second of the server, median of the rounds (middle half)"
SHARE = 0.97


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Compare a hot read with metrics and without."""
    target = plan.targets[0]
    with ExitStack() as stack:
        contenders = {}
        for name in ("plain", "measured", "plain again", "measured again"):
            settings = _settings(folder / name, bench.unused_port() if "measured" in name else 0)
            child = stack.enter_context(bench.web_service(settings))
            contenders[name] = Contender(child, settings.port)
        rates = alternate(contenders, target, plan.rounds)
    both = zip(rates["measured"], rates["measured again"], strict=True)
    rates["with"] = [fmean(pair) for pair in both]
    name = target.removeprefix("/api/agent/")
    cost = bench.ratios(rates, "with", "plain", "plain again")
    return bench.Section(
        TITLE,
        [
            bench.at_least(f"{name} with metrics / without", cost, SHARE),
            bench.at_least(
                "  A/A control: without / without", bench.ratios(rates, "plain again", "plain")
            ),
        ],
    )


def _settings(folder: Path, metrics_port: int) -> Settings:
    folder.mkdir()
    settings = benchmark_settings(folder)
    publish_market(settings)
    return settings.model_copy(update={"metrics_port": metrics_port})

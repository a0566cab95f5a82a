"""The list of all perpetuals, compared with a bare application that sends the same bytes."""

from pathlib import Path

from barograph.markets.perpetuals import PERPETUALS_PATH
from benchmarks import bench
from benchmarks.hot_reads import BARE_SHARE, Contender
from benchmarks.market import CONTRACTS, benchmark_settings, publish_market
from benchmarks.pages import compare_with_bare

TITLE = f"The list of {CONTRACTS} perpetuals: requests per CPU-second, as a share of bare ASGI"
ENCODINGS = ("gzip", "identity")


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Compare the compressed list, which most clients get, and the plain one."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    figures: list[bench.Figure] = []
    with bench.web_service(settings) as child:
        for encoding in ENCODINGS:
            service = Contender(child, settings.port, (f"Accept-Encoding: {encoding}",))
            file = folder / encoding
            found = compare_with_bare(service, PERPETUALS_PATH, file, plan.rounds, BARE_SHARE)
            figures += [bench.Figure(f"{encoding}:", ""), *found]
    return bench.Section(TITLE, figures)

"""Material change for a subscriber: its latency with a short and a long record."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from msgspec.structs import replace
from pydantic import SecretStr

from barograph.entitlements.store import FEED, Entitlements, Holder
from barograph.history.ledger import Ledger
from barograph.history.records import Version
from barograph.kit.clock import system_clock
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.settings import Settings
from barograph_demo.servers.identity import API_KEY, DEMO_USERS, demo_token
from benchmarks import bench, load
from benchmarks.hot_reads import Contender, alternate_latencies
from benchmarks.ledger import LENGTH_BOUND, LONG, QUICK_LONG, SHORT, load_record
from benchmarks.market import benchmark_settings, publish_market, running_world
from support.comparisons import of_rates

TITLE = "The comparison for one subscriber: median of the rounds (middle half)"
SOURCE = "benchmark"
PERIOD = 30 * DAY


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Measure two services with records of different lengths, in turns."""
    with running_world(folder, "identity") as servers, ExitStack() as stack:
        services, targets = {}, {}
        for count in (SHORT, plan.size(LONG, QUICK_LONG)):
            name, settings = f"{count:,}", entitled_settings(folder / str(count), servers)
            targets[name] = fill_service(settings, count)
            child = stack.enter_context(bench.web_service(settings))
            services[name] = Contender(child, settings.port, bearer(folder, servers))
        latencies = alternate_latencies(services, targets, plan.rounds)
    short, long = latencies
    figures = [latency_figure(f"{name} versions", latencies[name]) for name in latencies]
    pairs = list(zip(latencies[long], latencies[short], strict=True))
    for name, ratios in (
        ("p50", [one.p50 / other.p50 for one, other in pairs]),
        ("p99", [one.p99 / other.p99 for one, other in pairs]),
    ):
        figures.append(bench.at_most(f"  {name}: {long} / {short}", ratios, LENGTH_BOUND))
    return bench.Section(TITLE, figures)


def entitled_settings(data: Path, servers: dict[str, str]) -> Settings:
    """A service in a new folder that uses the simulated identity provider."""
    data.mkdir()
    who = {
        "identity": "supabase",
        "identity_url": servers["identity"],
        "identity_api_key": SecretStr(API_KEY),
    }
    return benchmark_settings(data).model_copy(update=who)


def bearer(folder: Path, servers: dict[str, str]) -> tuple[str]:
    """The header field of the subscriber."""
    token = demo_token(folder / "world", "feed", system_clock(), servers["identity"])
    return (f"Authorization: Bearer {token}",)


def fill_service(settings: Settings, count: int) -> str:
    """A market, a subscriber, and a record; return the address that compares its newest two."""
    publish_market(settings)

    async def work() -> str:
        await load_record(settings.history_address, count - 2)
        database = open_database(settings.database_address)
        history = open_database(settings.history_address)
        subscriber = Holder("user", DEMO_USERS["feed"])
        await Entitlements(database, system_clock).add_period(
            subscriber, FEED, period_ms=PERIOD, source=SOURCE, by=SOURCE, why=SOURCE
        )
        ledger, now = Ledger(history, system_clock), system_clock()
        before, after = [
            (await ledger.append(replace(of_rates(), leg_id=name, expires_at=now + PERIOD))).version
            for name in ("before", "after")
        ]
        await database.close()
        await history.close()
        return _target(before, after)

    return asyncio.run(work())


def _target(before: Version, after: Version) -> str:
    query = {"kind": after.kind}
    for side, version in (("before", before), ("after", after)):
        query |= {
            f"{side}_leg": version.leg_id,
            f"{side}_revision": str(version.revision),
            f"{side}_digest": version.history_digest,
        }
    return f"{MATERIAL_CHANGE_PATH}?{urlencode(query)}"


def latency_figure(name: str, latencies: list[load.Latency]) -> bench.Figure:
    """The latency of one service, as the median of its rounds."""
    p50, p99 = (median(column) for column in zip(*latencies, strict=True))
    return bench.Figure(name, f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")

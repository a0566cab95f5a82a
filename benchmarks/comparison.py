"""Material change: its latency with a short and a long record, and its cost.

One subscriber of the simulated identity provider sends requests. The comparison is a plain FastAPI
route that reads the same versions twice by the driver alone and builds the service's pydantic model
from a prepared response. It checks no token, entitlement, parameter or digest and compares nothing.

Run as `python -m benchmarks.comparison PORT FOLDER`, it is the identity provider.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import msgspec
from fastapi import FastAPI, Response
from pydantic import SecretStr

from barograph.entitlements.store import FEED, Entitlements, Holder
from barograph.history.ledger import Ledger
from barograph.history.records import Proposal, Version
from barograph.kit.clock import system_clock
from barograph.kit.http import ASGIApp
from barograph.kit.opening import open_database
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import DAY
from barograph.macro.records import (
    EFFR,
    EFFR_HIGH,
    EFFR_LOW,
    SOFR,
    US2Y,
    US3M,
    US10Y,
    RecordedFigure,
)
from barograph.material_change.documents import Comparison
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.settings import Settings
from barograph.stances import rates
from barograph_demo.servers.control import ServerAddress
from barograph_demo.servers.identity import (
    API_KEY,
    DEMO_USERS,
    KEYS_PATH,
    demo_token,
    load_or_create_key,
    running_identity,
)
from benchmarks import bench, load
from benchmarks.hot_reads import Contender, alternate, alternate_latencies, answer_of
from benchmarks.ledger import SHORT, driver_reader, load_record, long_record
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import FILE_VARIABLE, OF_THE_FRAMEWORK, running_peer, store, stored_answer

TITLE = "The entitled comparison, for one subscriber: median of the rounds (middle half)"
LENGTH_BOUND = 1.3
PEER_SHARE = 0.5
SOURCE = "benchmark"
DAYS = 30
HISTORY_VARIABLE = "BENCHMARK_HISTORY"
PERIOD = 30 * DAY
COMMAND = (sys.executable, "-m", "benchmarks.comparison")
LEVELS: Mapping[str, float] = {
    US3M: 4.31,
    US2Y: 4.02,
    US10Y: 4.28,
    SOFR: 4.33,
    EFFR: 4.29,
    EFFR_LOW: 4.25,
    EFFR_HIGH: 4.5,
}


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Measure two services with records of different lengths, then one of them and its peer."""
    long = long_record(plan)
    with ExitStack() as stack:
        provider = stack.enter_context(identity_provider(folder))
        services, targets = {}, {}
        for count in (SHORT, long):
            print(f"the comparison: loading {count:,} versions", file=sys.stderr)
            name, settings = f"{count:,}", entitled_settings(folder / str(count), provider)
            targets[name] = comparison_target(*fill_service(settings, count))
            token = demo_token(folder, "feed", system_clock(), provider.url)
            child = stack.enter_context(bench.web_service(settings))
            services[name] = Contender(child, settings.port, (f"Authorization: Bearer {token}",))
        figures = _latencies(services, targets, plan.rounds)
        history = folder / str(long) / "history.sqlite3"
        figures += _costs(services[name], targets[name], history, plan.rounds)
    return bench.Section(TITLE, figures)


def entitled_settings(data: Path, provider: ServerAddress) -> Settings:
    """A service in a new folder that uses this identity provider."""
    data.mkdir()
    who = {
        "identity": "supabase",
        "identity_url": provider.url,
        "identity_api_key": SecretStr(API_KEY),
    }
    return benchmark_settings(data).model_copy(update=who)


def fill_service(settings: Settings, count: int) -> tuple[Version, Version]:
    """A market, a subscriber, and a record whose newest two versions the service itself made."""
    publish_market(settings)
    load_record(settings.history_address, count - 2, rates.KIND)

    async def work() -> tuple[Version, Version]:
        database = open_database(settings.database_address)
        history = open_database(settings.history_address)
        subscriber = Holder("user", DEMO_USERS["feed"])
        await Entitlements(database, system_clock).add_period(
            subscriber, FEED, period_ms=PERIOD, source=SOURCE, by=SOURCE, why=SOURCE
        )
        ledger = Ledger(history, system_clock)
        today = datetime.now(UTC).date()
        days = (today - timedelta(days=1), today)
        before, after = [(await ledger.append(_proposal(day))).version for day in days]
        await database.close()
        await history.close()
        return before, after

    return asyncio.run(work())


def _proposal(day: date) -> Proposal:
    """The stance on rates that rise a little every day, up to this one."""
    now = system_clock()
    today = datetime.now(UTC).date()
    days = [day - timedelta(days=back) for back in range(DAYS, -1, -1)]
    series = {
        name: [
            RecordedFigure(
                name, each.isoformat(), 1, _risen(level, (today - each).days), SOURCE, now
            )
            for each in days
        ]
        for name, level in LEVELS.items()
    }
    found = rates.propose(series, now, day, PERIOD, was_inverted=False)
    if isinstance(found, str):
        raise bench.BenchmarkFailed(f"there is no stance to compare: {found}")
    return found


def _risen(level: float, days_ago: int) -> float:
    return round(level - 0.01 * days_ago, 2)


def comparison_target(before: Version, after: Version) -> str:
    """The path and the query of a comparison."""
    given = {"kind": after.kind}
    for side, version in (("before", before), ("after", after)):
        given |= {
            f"{side}_leg": version.leg_id,
            f"{side}_revision": str(version.revision),
            f"{side}_digest": version.history_digest,
        }
    return f"{MATERIAL_CHANGE_PATH}?{urlencode(given)}"


def _latencies(
    services: Mapping[str, Contender], targets: Mapping[str, str], rounds: int
) -> list[bench.Figure]:
    found = alternate_latencies(services, targets, rounds)
    short, long = found
    pairs = list(zip(found[long], found[short], strict=True))
    p50 = [one.p50 / other.p50 for one, other in pairs]
    p99 = [one.p99 / other.p99 for one, other in pairs]
    return [
        *(latency_figure(f"latency at {count} versions", found[count]) for count in (short, long)),
        bench.at_most(f"  p50: {long} versions / {short}", p50, LENGTH_BOUND),
        bench.at_most(f"  p99: {long} versions / {short}", p99, LENGTH_BOUND),
    ]


def latency_figure(name: str, found: list[load.Latency]) -> bench.Figure:
    """The latency of one service, as the median of its rounds."""
    p50, p99 = (median(column) for column in zip(*found, strict=True))
    return bench.Figure(name, f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")


def _costs(service: Contender, target: str, history: Path, rounds: int) -> list[bench.Figure]:
    """Requests per CPU-second of the service between two peers."""
    file = history.with_name("answer")
    answer = answer_of(service, target)
    store(file, target, answer)
    with _peer(target, file, history) as first, _peer(target, file, history) as twin:
        contenders = {"peer": first, "service": service, "twin": twin}
        for name, contender in contenders.items():
            if _lasting(answer_of(contender, target)) != _lasting(answer):
                raise bench.BenchmarkFailed(
                    f"{name} returns a different response to the comparison"
                )
        rates_of = alternate(contenders, target, rounds)
    name = "requests / FastAPI route"
    return bench.between(rates_of, name, "FastAPI route", PEER_SHARE)


def _lasting(answer: bench.Answer) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """A response without its time."""
    body: dict[str, Any] = msgspec.json.decode(answer.body)
    headers = [(name.lower(), value) for name, value in answer.headers]
    return sorted(each for each in headers if each[0] != "date"), {**body, "compared_at": ""}


@contextmanager
def identity_provider(folder: Path) -> Iterator[ServerAddress]:
    """The demo's identity provider as a process."""
    address = ServerAddress(bench.HOST, bench.unused_port())
    command = (*COMMAND, str(address.port), str(folder))
    with bench.running(command, log=folder / "identity.log") as child:
        bench.until(lambda: bench.answers(address.port, KEYS_PATH), child)
        yield address


@contextmanager
def _peer(target: str, file: Path, history: Path) -> Iterator[Contender]:
    files = {FILE_VARIABLE: str(file), HISTORY_VARIABLE: str(history)}
    ready, log = lambda port: bench.answers(port, target), file.with_suffix(".log")
    with running_peer("benchmarks.comparison:peer", ready, log, **files) as (child, port):
        yield Contender(child, port)


def peer() -> ASGIApp:
    """The route that the service is compared with; it sends the same headers."""
    stored = stored_answer()
    facts: dict[str, Any] = msgspec.json.decode(stored.body)
    del facts["schema"]  # a constant of the model
    facts["assessment"].setdefault("evidence_field_presence", None)
    fields = {name: value for name, value in stored.headers if name not in OF_THE_FRAMEWORK}
    read_latest = driver_reader(Path(os.environ[HISTORY_VARIABLE]))
    app = FastAPI()

    @app.get(MATERIAL_CHANGE_PATH, response_model=Comparison)
    async def read(response: Response) -> Comparison:
        response.headers.update(fields)
        read_latest(rates.KIND)
        read_latest(rates.KIND)
        return Comparison(**facts)

    return app


async def _provide(port: int, folder: Path) -> None:
    async with running_identity(load_or_create_key(folder), port=port, clock=system_clock):
        await asyncio.Event().wait()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(_provide(int(sys.argv[1]), Path(sys.argv[2])))

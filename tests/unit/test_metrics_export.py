"""The sum of the numbers of all processes."""

import asyncio
import logging
import socket
import struct
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import httpx2
import msgspec
import pytest

from barograph.errors import Unreachable
from barograph.kit.metrics import LEADER, PROCESSES, REQUEST_SECONDS, Gauges, Metrics, RequestTimes
from barograph.kit.metrics_export import (
    LIVE_MS,
    MetricsExporter,
    ProcessFile,
    SumOfProcesses,
    is_known_host,
    serve_metrics,
)
from barograph.kit.operating_system import lock_file
from barograph.macro.records import Figure
from barograph.settings import Settings
from barograph.upstream.files import OutOfRange
from support.clock import HandClock
from support.metrics import files_sum
from support.processes import HOST, unused_port

CALLS = "barograph_upstream_calls_total bybit"


def counted(calls: int) -> Metrics:
    metrics = Metrics()
    for _ in range(calls):
        with metrics.call("bybit"):
            pass
    return metrics


class Host:
    """The metrics of one host."""

    def __init__(self, data: Path) -> None:
        self.clock = HandClock()
        self.settings = Settings(data=data, metrics_host=HOST, metrics_port=unused_port())
        self.folder = data / "metrics"
        self.folder.mkdir()

    def leave_file(self, name: str, calls: int, leads: float = 0, age: int = 0) -> Path:
        """Write the file of another process, and return its lock."""
        totals = list(counted(calls).totals.items())
        content = ProcessFile(self.clock() - age, totals, [((LEADER.name,), leads)])
        (self.folder / f"{name}.json").write_bytes(msgspec.json.encode(content))
        lock = self.folder / f"{name}.lock"
        lock.touch()
        return lock

    async def run_until_served(
        self,
        metrics: Metrics,
        *between: Callable[[], None],
        hosts: Sequence[str] = (),
        gauges: Mapping[str, float] | None = None,
    ) -> list[int]:
        """Run a collector for one round, and one more after each step; scrape it, and stop it."""

        async def sample(found: Gauges) -> None:
            found |= {(name,): value for name, value in (gauges or {}).items()}

        async def sleep(_: float) -> None:
            if (step := next(steps, None)) is not None:
                step()
                return
            done.set()
            await asyncio.Event().wait()

        done, steps = asyncio.Event(), iter(between)
        exporter = MetricsExporter(
            self.settings, "collector", metrics, sample, self.clock, sleep=sleep
        )
        async with exporter.running():
            await done.wait()
            async with httpx2.AsyncClient(trust_env=False) as client:
                url = f"http://{HOST}:{self.settings.metrics_port}/metrics"
                asked = [await client.get(url, headers={"Host": name}) for name in hosts]
                return [answer.status_code for answer in asked]

    def sums(self) -> dict[str, float]:
        return files_sum(self.folder, self.clock)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_counters_add_up_and_only_running_processes_have_gauges(host: Host) -> None:
    running = lock_file(host.leave_file("collector-0", calls=2, leads=1))
    frozen = lock_file(host.leave_file("collector-1", calls=4, leads=1, age=LIVE_MS + 1))
    host.leave_file("collector-2", calls=8, leads=1)  # killed a moment ago
    host.leave_file("web-0", calls=0).with_suffix(".json").write_text("half a fi")
    assert host.sums()[CALLS] == 14
    assert host.sums()["barograph_leader"] == 1
    for each in (running, frozen):
        assert each is not None
        each.close()


async def test_a_process_continues_the_counts_of_an_ended_one(host: Host) -> None:
    running = lock_file(host.leave_file("collector-0", calls=4))
    ended = host.leave_file("collector-1", calls=3)
    for _ in range(2):
        await host.run_until_served(counted(5))
    assert host.sums()[CALLS] == 4 + 3 + 5 + 5
    files = sorted(host.folder.glob("*.json"))
    assert [file.stem for file in files] == ["collector-0", ended.stem]
    assert running is not None
    running.close()


def test_files_of_metrics_are_private_and_a_stopped_process_has_no_gauges(host: Host) -> None:
    asyncio.run(host.run_until_served(Metrics(), gauges={LEADER.name: 1.0}))
    (file,) = host.folder.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert not {"barograph_leader", f"{PROCESSES.name} collector"} & host.sums().keys()


def test_a_port_in_use_is_logged_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with closing(socket.create_server((HOST, host.settings.metrics_port))):
        asyncio.run(host.run_until_served(Metrics()))
    (record,) = caplog.records
    assert record.getMessage() == "metrics are not served"
    assert "in use" in vars(record)["reason"]


def test_each_outage_and_end_is_logged_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    obstacle = host.folder / "collector-0.draft"

    def break_it() -> None:
        obstacle.unlink(missing_ok=True)
        obstacle.mkdir()

    outage = (break_it, lambda: None, obstacle.rmdir)
    asyncio.run(host.run_until_served(Metrics(), *outage, *outage))
    said = [each.getMessage() for each in caplog.records]
    assert said == ["metrics are not served", "metrics are served again"] * 2


@pytest.mark.thorough
def test_odd_scrapes_are_answered_silently(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve_metrics(HOST, 0, SumOfProcesses(host.folder, host.clock), set())
    try:
        port = server.server_port
        reset = struct.pack("ii", 1, 0)  # SO_LINGER of zero seconds: closing sends a reset
        for sent in (b"", b"GET /" + b"x" * 100_000 + b" HTTP/1.0\r\n\r\n"):
            with socket.create_connection((HOST, port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                client.sendall(sent)
        odd = {"Accept": "application/openmetrics-text; version=zz.1"}
        for target, headers in (("", odd), ("?name[]=barograph_leader", {})):
            answer = httpx2.get(f"http://{HOST}:{port}/metrics{target}", headers=headers)
            assert (answer.status_code, "barograph_leader" in answer.text) == (200, True)
    finally:
        server.shutdown()
        server.server_close()
    assert capfd.readouterr().err == ""


def test_only_an_address_or_a_known_name_is_a_host_of_the_metrics() -> None:
    for field in ("127.0.0.1:9464", "10.0.0.8", "[::1]:9464", "LOCALHOST:9464", "web-1:9464"):
        assert is_known_host(field, {"localhost", "web-1"}), field
    odd = "127.0.0.1.attacker.example", "localhost,attacker.example", "[::1", ""
    assert not any(is_known_host(field, {"localhost", ""}) for field in odd)


def test_scrape_for_another_host_is_421(host: Host) -> None:
    named = {"base_url": "https://public.example", "metrics_names": "web-1,web-2"}
    host.settings = host.settings.model_copy(update=named)
    hosts = ("web-2:9464", "public.example:9464", "attacker.example:9464")
    assert asyncio.run(host.run_until_served(Metrics(), hosts=hosts)) == [200, 200, 421]


def test_failures_have_one_of_few_kinds() -> None:
    metrics = Metrics()
    for error in (OutOfRange(Figure("us10y", "2026-01-02", 99.0, "x")), Unreachable("gone")):
        with pytest.raises(type(error)), metrics.call("treasury"):
            raise error
    for status in (401, 429):
        metrics.replied("treasury", status)
    kinds = {key[2] for key in metrics.totals if len(key) == 3}
    assert kinds == {"invalid reply", "unreachable", "throttled"}


def test_long_paths_take_no_memory() -> None:
    times = RequestTimes(Metrics(), lambda _: "other")
    tracemalloc.start()
    for number in range(200):
        times.of(f"/{number}" + "x" * 50_000, 404)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1_000_000


def test_a_duration_counts_in_every_bucket_that_it_fits(host: Host) -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.0011, 99.0):
        metrics.observe(seconds, REQUEST_SECONDS, "/", "200")
    asyncio.run(host.run_until_served(metrics))
    name = "barograph_request_seconds_bucket / 200"
    sums = host.sums()
    assert [sums[f"{name} {bound}"] for bound in ("0.001", "0.005", "2.5", "+Inf")] == [1, 2, 2, 3]

"""The sum of the numbers of all processes."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from barograph.errors import Unreachable
from barograph.kit.metrics import LEADER, PROCESSES, REQUEST_SECONDS, Key, Metrics, observe
from barograph.kit.metrics_export import LIVE_MS, MetricsExporter, ProcessFile
from barograph.kit.request_times import RequestTimes
from barograph.macro.records import Figure
from barograph.settings import Settings
from barograph.upstream.files import OutOfRange
from support.clock import HandClock
from support.metrics import files_sum
from support.processes import HOST, unused_port
from support.service import asked

NOBODY = 2**22 + 1
"""A process id that Linux never gives."""

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

    def leave_file(self, role: str, pid: int, calls: int, leads: float, age: int = 0) -> None:
        """Write the file of another process."""
        totals = list(counted(calls).totals.items())
        gauges: list[tuple[Key, float]] = [((LEADER.name,), leads)]
        written_at = self.clock() - age
        content = ProcessFile(role, pid, written_at, totals, gauges)
        (self.folder / f"{role}-{pid}.json").write_bytes(msgspec.json.encode(content))

    async def run_until_served(self, metrics: Metrics, **gauges: float) -> None:
        """Run a collector until its first scrape is possible, and stop it."""

        async def sample() -> Mapping[Key, float]:
            return {(name,): value for name, value in gauges.items()}

        async def sleep(_: float) -> None:
            done.set()
            await asyncio.Event().wait()

        done = asyncio.Event()
        exporter = MetricsExporter(
            self.settings, "collector", metrics, sample, clock=self.clock, sleep=sleep
        )
        async with exporter.running():
            await done.wait()

    def sums(self) -> dict[str, float]:
        return files_sum(self.folder, self.clock)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_counters_add_up_and_only_running_processes_have_gauges(host: Host) -> None:
    host.leave_file("collector", 1, calls=2, leads=1)
    host.leave_file("collector", 2, calls=3, leads=0)
    host.leave_file("collector", NOBODY, calls=4, leads=1, age=LIVE_MS + 1)
    (host.folder / "web-7.json").write_text("half a fi")
    assert host.sums()[CALLS] == 9
    assert host.sums()["barograph_leader"] == 1


def test_no_counter_goes_backwards_when_a_process_replaces_an_ended_one(host: Host) -> None:
    host.leave_file("collector", NOBODY, calls=4, leads=1, age=LIVE_MS + 1)
    host.leave_file("collector", os.getppid(), calls=3, leads=0, age=LIVE_MS + 1)  # frozen
    host.leave_file("collector", os.getpid(), calls=2, leads=0)  # its process id is used again
    host.leave_file("web", NOBODY, calls=1, leads=0, age=LIVE_MS + 1)
    asyncio.run(host.run_until_served(counted(5)))
    assert host.sums()[CALLS] == 15
    names = {file.name for file in host.folder.glob("*.json")}
    pids = {"collector": [os.getpid(), os.getppid()], "web": [NOBODY]}
    assert names == {f"{role}-{pid}.json" for role, found in pids.items() for pid in found}


def test_files_of_metrics_are_private_and_a_stopped_process_has_no_gauges(host: Host) -> None:
    asyncio.run(host.run_until_served(Metrics(), **{LEADER.name: 1.0}))
    (file,) = host.folder.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert not {"barograph_leader", f"{PROCESSES.name} collector"} & host.sums().keys()


def test_a_port_that_another_program_uses_is_logged_once(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with closing(socket.create_server((HOST, host.settings.metrics_port))):
        asyncio.run(host.run_until_served(Metrics()))
    (record,) = caplog.records
    assert record.getMessage() == "metrics are not served"
    assert "in use" in vars(record)["reason"]


def test_failures_have_one_of_few_kinds() -> None:
    metrics = Metrics()
    for error in (OutOfRange(Figure("us10y", "2026-01-02", 99.0, "x")), Unreachable("gone")):
        with pytest.raises(type(error)), metrics.call("treasury"):
            raise error
    kinds = {key[2] for key in metrics.totals if len(key) == 3}
    assert kinds == {"invalid reply", "unreachable"}


def test_a_request_without_a_response_is_counted() -> None:
    async def leave(*_: Any) -> Any:
        raise asyncio.CancelledError

    metrics = Metrics()
    app = RequestTimes(metrics, lambda path: path).measured(leave)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asked(app, "/"))
    assert list(metrics.totals) == [(REQUEST_SECONDS.name, "/", "none")]


def test_a_duration_counts_in_every_bucket_that_it_fits(host: Host) -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.0011, 99.0):
        observe(metrics.times_of(REQUEST_SECONDS, "/", "200"), seconds)
    asyncio.run(host.run_until_served(metrics))
    name = "barograph_request_seconds_bucket / 200"
    sums = host.sums()
    assert [sums[f"{name} {bound}"] for bound in ("0.001", "0.005", "2.5", "+Inf")] == [1, 2, 2, 3]

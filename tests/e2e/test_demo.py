"""The demo as a person uses it, and the README's own words about it."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from support.processes import (
    HOST,
    Process,
    answer_200,
    eventually,
    get,
    none_left,
    running,
    unused_port,
)

pytestmark = pytest.mark.e2e

_HOURLY = "SELECT contract, at, last_price FROM readings WHERE resolution = 'hour'"
README = Path(__file__).parents[2] / "README.md"


class Demo(NamedTuple):
    process: Process
    base_url: str
    folder: Path


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    with _started(folder) as found:
        yield found


@contextmanager
def _started(folder: Path) -> Iterator[Demo]:
    port = unused_port()
    arguments = ("demo", "--port", str(port), "--data", str(folder / "data"))
    with running(*arguments, log=folder / "log") as process:
        eventually(lambda: "Ctrl-C stops" in _log(folder) or None, "the welcome", 60)
        yield Demo(process, f"http://{HOST}:{port}", folder)


def test_demo_prints_its_addresses_and_says_that_its_data_is_simulated(demo: Demo) -> None:
    printed = _log(demo.folder)
    assert "All of its data is simulated" in printed
    for path in ("/", "/api/agent/market-state", "/api/status"):
        assert f"{demo.base_url}{path}" in printed
        assert answer_200(f"{demo.base_url}{path}") is not None


def test_demo_has_everything_from_its_first_answer(demo: Demo) -> None:
    state = _json(demo, "/api/agent/market-state")
    assert state["source"] == "simulated exchange (demo data)"
    assert state["liq24h"]["available"] is True
    assert state["liq24h"]["totalNotional"] > 0
    assert [asset["available"] for asset in state["assets"]] == [True] * 3
    assert all(asset["longAccountPct"] is not None for asset in state["assets"])
    assert _json(demo, "/api/status")["status"] == "ok"


def test_readme_calls_answer_as_printed_there(demo: Demo) -> None:
    calls = re.findall(r"^\$ (curl .*)\n(.*)$", README.read_text("utf-8"), re.MULTILINE)
    assert len(calls) == 3
    for command, printed in calls:
        there = shlex.split(command.replace("http://127.0.0.1:8080", demo.base_url))
        answered = subprocess.run(there, capture_output=True, check=True).stdout
        assert _shape(json.loads(answered)) == _shape(json.loads(printed)), command


def test_fault_command_breaks_and_mends_the_exchange(demo: Demo) -> None:
    data = str(demo.folder / "data")
    assert _barograph("demo", "fault", "exchange", "on", "--data", data) == "exchange: outage\n"
    eventually(lambda: _json(demo, "/api/status")["status"] == "degraded" or None, "degraded")
    assert _barograph("demo", "fault", "exchange", "off", "--data", data) == "exchange: no fault\n"
    eventually(lambda: _json(demo, "/api/status")["status"] == "ok" or None, "recovery")


def test_second_demo_in_the_same_folder_is_refused(demo: Demo, tmp_path: Path) -> None:
    arguments = ("demo", "--port", str(unused_port()), "--data", str(demo.folder / "data"))
    with running(*arguments, log=tmp_path / "log") as second:
        assert second.popen.wait(20) == 3
    assert "in use by another process" in (tmp_path / "log").read_text()


@pytest.mark.outcome(
    "the replay of the demo is interrupted, also twice",
    "it stops at once with 130; a start resumes",
)
def test_interrupted_replay_stops_at_once_without_a_trace(tmp_path: Path) -> None:
    arguments = ("demo", "--port", str(unused_port()), "--data", str(tmp_path / "data"))
    with running(*arguments, log=tmp_path / "log") as process:
        eventually(lambda: len(process.family()) > 2 or None, "the replay at work")
        family = process.family()
        for each in (*family, family[0], family[0]):  # a terminal tells the whole group
            each.send_signal(signal.SIGINT)
        assert process.popen.wait(10) == 130
        assert none_left(family)
    printed = [line for line in (tmp_path / "log").read_text().splitlines() if line]
    assert printed == ["replaying the simulated past ...", "interrupted"]


def test_stopped_demo_leaves_nothing_and_continues_its_record_at_once(demo: Demo) -> None:
    """Runs last: it stops the demo that the others use."""
    family = demo.process.family()
    assert len(family) >= 5
    assert demo.process.stop(signal.SIGINT) < 10
    assert none_left(family)
    (demo.folder / "log").write_text("")
    world, record = (demo.folder / "data/world.json").read_text(), _record(demo.folder)
    assert len(record) > 90_000
    with _started(demo.folder) as again:
        assert (demo.folder / "data/world.json").read_text() == world
        assert _json(again, "/api/agent/market-state")["liq24h"]["available"] is True
        assert record <= _record(demo.folder)


def _json(demo: Demo, path: str) -> Any:
    response = get(demo.base_url + path)
    assert response is not None
    return response.json()


def _record(folder: Path) -> set[tuple[object, ...]]:
    database = apsw.Connection(
        str(folder / "data/barograph.sqlite3"), flags=apsw.SQLITE_OPEN_READONLY
    )
    with closing(database):
        return set(database.execute(_HOURLY))


def _barograph(*arguments: str) -> str:
    command = [sys.executable, "-m", "barograph", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _log(folder: Path) -> str:
    return (folder / "log").read_text()


def _shape(value: Any) -> Any:
    """Names and types, without the numbers, which move."""
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return type(value).__name__

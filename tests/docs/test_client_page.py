"""The code of docs/client.md, run exactly as it is written there, on a real port."""

import os
import re
import subprocess
import sys
from contextlib import closing
from inspect import isfunction
from pathlib import Path
from queue import Queue
from subprocess import PIPE
from typing import Any

import pytest

from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.store import ReadingRow
from barograph_client import AsyncBarograph, Barograph, calls, errors
from barograph_client import subscriber as events
from barograph_client.clients import SECONDS, WHOLE
from barograph_client.following import FIRST_PAUSE, LONGEST_PAUSE, SILENCE
from barograph_client.reads import PATIENCE
from support.clock import START
from support.markets import reading, shares
from support.pages import MAIL
from support.readers import on_a_port
from support.service import Answer
from support.stances import FUNDING, RATES, proposal
from support.subscribers import FEED_TOKEN, SubscriberService

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FREE, ASYNC, PERPETUALS, CROSS, CHART, EVENTS, ALERTS, FOLLOWING = EXAMPLES
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1"}


def run(code: str, service: SubscriberService, folder: Path, **env: str) -> list[str]:
    """The lines that a program of the page prints."""
    with on_a_port(service.ask) as address:
        program = code.replace("http://127.0.0.1:8080", address)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=folder,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_quickstart_prints_the_market(service: SubscriberService, tmp_path: Path) -> None:
    first, second, *briefs = run(FREE, service, tmp_path)
    assert first == "BTC 67000.5 0.01 test venue"
    assert second.startswith("neutral Barograph, ")
    assert briefs == []


def test_the_example_of_alerts_leaves_nothing_behind(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**MAIL}
    with closing(SubscriberService(tmp_path, **settings)) as mailing:
        mailing.publish(reading(), shares())
        key = mailing.create_key().key
        first, messages = run(ALERTS, mailing, tmp_path, BAROGRAPH_KEY=key)
        assert first.startswith("Tells you when BTC funding at any exchange is above 0.0500")
        assert messages == "[]"
        assert mailing.rows("SELECT * FROM alerts") == []


def test_the_quickstart_without_blocking_prints_the_same_market(
    service: SubscriberService, tmp_path: Path
) -> None:
    (line,) = run(ASYNC, service, tmp_path)
    assert line.startswith("['BTC', 'ETH', 'SOL'] [")


def test_all_perpetuals_a_chart_and_all_events_take_ten_lines_each() -> None:
    for program in (PERPETUALS, CROSS, CHART, EVENTS):
        assert len([line for line in program.splitlines() if line]) <= 10


@pytest.mark.thorough
def test_the_perpetuals_are_printed(service: SubscriberService, tmp_path: Path) -> None:
    head, first, *others, alias = run(PERPETUALS, service, tmp_path)
    assert head.endswith(f"bybit {len(others) + 1}")
    assert first == "BTC 67000.5 0.01 5000000000.0"
    assert alias == "1000PEPE"


@pytest.mark.thorough
def test_a_coin_is_printed_with_its_venues(service: SubscriberService, tmp_path: Path) -> None:
    total, venue = run(CROSS, service, tmp_path)
    assert total == "5000000000.0 []"
    assert venue == "bybit ok None 0.01 5000000000.0"


@pytest.mark.thorough
def test_the_chart_s_points_and_the_watched_spans_are_printed(
    service: SubscriberService, tmp_path: Path
) -> None:
    at = START // DAY * DAY
    row = ReadingRow("hour", "ETHUSDT", at, 1.0, 0.0, 8, 2.5, None)
    hour = LiquidationHour(at, 0.0, 0.0, 100.0)
    service.record_market(readings=[row], liquidation_hours=[hour])
    point, *_, liquidations = run(CHART, service, tmp_path)
    assert point == f"{iso_timestamp(at)} 2.5 measured 0.25"
    assert liquidations.startswith("(Span(from_=")


@pytest.mark.thorough
def test_the_follower_s_program_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    positions: Queue[int] = Queue()
    log: list[str] = []

    def ask(target: str, **_: str) -> Answer:
        """The stream, which ends after the newest event."""
        after = int(target.removeprefix("/api/v1/events/stream?after="))
        positions.put(after)
        body = "retry: 100\n" + "".join(log[after:])
        return Answer(200, [(b"content-type", b"text/event-stream")], body.encode())

    def printed_ids() -> list[str]:
        """What the program prints until it has handled every event."""
        program = [sys.executable, "-c", EVENTS.replace("http://127.0.0.1:8080", address)]
        with subprocess.Popen(program, cwd=tmp_path, stdout=PIPE, env=UNBUFFERED) as running:
            while positions.get(timeout=60) != len(log):
                pass
            running.kill()
            return [line.split()[0].decode() for line in running.communicate()[0].splitlines()]

    with on_a_port(ask) as address:
        for new in (["1", "2", "3"], ["4", "5"]):
            log += [f'data: {{"id": {each}, "type": "a", "at": "b"}}\n\n' for each in new]
            assert printed_ids() == new


def test_the_subscriber_s_program_keeps_and_then_compares(
    service: SubscriberService, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(FEED_TOKEN + "\n")
    service.record(proposal(), proposal(kind=RATES))
    assert run(FOLLOWING, service, tmp_path) == [f"{RATES} kept", f"{FUNDING} kept"]
    service.record(proposal(label="cautious", by="operator"))
    assert run(FOLLOWING, service, tmp_path) == [f"{FUNDING} decision_revision_only"]
    service.record(proposal(label="neutral", by="operator"), proposal(label="constructive"))
    assert run(FOLLOWING, service, tmp_path) == [f"{FUNDING} nothing to compare"]
    (tmp_path / "token").write_text("wrong")
    (line,) = run(FOLLOWING, service, tmp_path)
    assert "does not verify" in line


def test_the_page_names_every_method_and_event() -> None:
    methods = {
        name
        for name, each in vars(calls).items()
        if isfunction(each) and each.__module__ == calls.__name__ and not name.startswith("_")
    }
    assert methods <= vars(Barograph).keys() & vars(AsyncBarograph).keys()
    assert len(methods) == 32
    methods |= {"pages", "follow", "to_frame"}
    assert {name for name in methods if f"`{name}`" not in PAGE} == set()
    for event in events.Event.__args__:
        assert f"| `{event.__name__}` |" in PAGE


def test_the_page_s_errors_and_figures_are_the_client_s() -> None:
    (row,) = re.findall(r"^\| errors \|.*$", PAGE, re.MULTILINE)
    named = re.findall("`([A-Z][A-Za-z]+)`", row)
    assert all(issubclass(getattr(errors, name), errors.ClientError) for name in named)
    assert len(named) >= 6
    assert (PATIENCE.tries, PATIENCE.seconds) == (3, 60.0)
    assert "at most three tries and waits at most 60 seconds in total" in PAGE
    assert (SECONDS, WHOLE) == (10.0, 3)
    assert "fails after 10 seconds without a byte (`timeout`), or when" in PAGE
    assert "the body takes three times as long" in PAGE
    assert (SILENCE, FIRST_PAUSE, LONGEST_PAUSE) == (45.0, 3.0, 60.0)
    assert "is silent for 45 seconds or breaks, `follow` waits 3 seconds," in PAGE
    assert "doubles the wait after each failure, up to 60 seconds" in PAGE

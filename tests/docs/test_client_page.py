"""The code of docs/client.md, run exactly as it is written there, on a real port."""

import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path

import pytest

from barograph_client import AsyncBarograph, Barograph, calls, errors
from barograph_client import subscriber as events
from barograph_client.clients import SECONDS, WHOLE
from barograph_client.reads import PATIENCE
from support.markets import reading, shares
from support.readers import on_a_port
from support.stances import FUNDING, RATES, proposal
from support.subscribers import FEED_TOKEN, SubscriberService

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
FREE, ASYNC, FOLLOWING = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SubscriberService]:
    service = SubscriberService(tmp_path)
    service.watch_day()
    service.publish(reading(), shares())
    yield service
    service.close()


def run(code: str, service: SubscriberService, folder: Path) -> list[str]:
    """The lines that a program of the page prints."""
    with on_a_port(service.ask) as address:
        program = code.replace("http://127.0.0.1:8080", address)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=folder,
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


def test_the_quickstart_without_blocking_prints_the_same_market(
    service: SubscriberService, tmp_path: Path
) -> None:
    (line,) = run(ASYNC, service, tmp_path)
    assert line.startswith("['BTC', 'ETH', 'SOL'] [")


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
    assert len(methods) == 11
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

"""`barograph watch`: what a subscriber sees in a terminal."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.watch import WatchEnded, follow, token_reader
from barograph.errors import ConfigurationError
from barograph_client import Barograph, ReferenceFile, Subscriber
from support.processes import unused_port
from support.readers import InProcess, on_a_port
from support.service import BASE_URL
from support.stances import FUNDING, RATES, proposal
from support.subscribers import FEED_TOKEN, RESERVE_TOKEN, SubscriberService


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SubscriberService]:
    service = SubscriberService(tmp_path)
    service.record(proposal(), proposal(kind=RATES))
    yield service
    service.close()


@pytest.fixture
def url(service: SubscriberService) -> Iterator[str]:
    with on_a_port(service.ask) as url:
        yield url


class Watcher:
    """Somebody who runs the command, with a token in a file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text(FEED_TOKEN + "\n")
        self.arguments = ["watch", "--once", "--url", url, "--token-file", str(self.token)]
        self.arguments += ["--references", str(folder / "references.json")]

    def run(self, *arguments: str, **environment: str) -> Result:
        return CliRunner(env=environment).invoke(cli, [*self.arguments, *arguments])

    def read_json(self, *arguments: str) -> list[dict[str, Any]]:
        result = self.run("--json", *arguments)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def watcher(url: str, tmp_path: Path) -> Watcher:
    return Watcher(url, tmp_path)


def revise(service: SubscriberService, label: str) -> None:
    service.record(proposal(label=label, by="operator"))


def test_each_line_of_json_is_a_stance_or_an_event(
    watcher: Watcher, service: SubscriberService
) -> None:
    first = watcher.read_json()
    assert [(each["event"], each.get("kind")) for each in first] == [
        ("stance", None),
        ("stance", None),
        ("kept", RATES),
        ("kept", FUNDING),
    ]
    assert [each["stance"]["kind"] for each in first[:2]] == [RATES, FUNDING]
    revise(service, "cautious")
    *stances, compared = watcher.read_json()
    assert [each["stance"]["revision"] for each in stances] == [1, 2]
    assert (compared["event"], compared["kind"]) == ("compared", FUNDING)
    assert compared["comparison"]["schema"] == "feed-material-change-v1"
    assert compared["comparison"]["assessment"]["change"] == "decision_revision_only"


def test_piped_it_is_plain_lines(watcher: Watcher, service: SubscriberService) -> None:
    watcher.run()
    revise(service, "cautious")
    result = watcher.run()
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    at = "2026-11-06T21:20:00.000Z"
    assert result.stdout.splitlines()[-3:] == [
        f"{FUNDING}  active  {at}  {FUNDING}:{at}  revision 2  on record",
        f"{FUNDING}: decision_revision_only",
        "  decision: neutral -> cautious (by operator)",
    ]
    revise(service, "constructive")
    revise(service, "neutral")
    assert (
        watcher.run()
        .stdout.splitlines()[-1]
        .endswith("nothing to compare; continuing from the newest version")
    )


def test_only_the_kinds_that_are_asked_for_are_shown(watcher: Watcher) -> None:
    told = watcher.read_json("--kind", RATES)
    assert [each["event"] for each in told] == ["stance", "kept"]
    assert "gold" in watcher.run("--kind", "gold").output


def test_a_token_may_come_from_the_environment(watcher: Watcher) -> None:
    place = watcher.arguments.index("--token-file")
    del watcher.arguments[place : place + 2]
    assert watcher.run(FEED_TOKEN=FEED_TOKEN).exit_code == 0
    missing = watcher.run(FEED_TOKEN="").exception
    assert isinstance(missing, ConfigurationError)
    assert "--token-file" in str(missing)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"one\ntwo\n", b"a b", b"a\x00b"])
def test_a_token_that_cannot_be_read_is_told_before_anything_is_asked(
    watcher: Watcher, content: bytes | None
) -> None:
    watcher.token.unlink()
    if content is not None:
        watcher.token.write_bytes(content)
    assert isinstance(watcher.run().exception, ConfigurationError)


@pytest.mark.parametrize(("token", "status"), [("wrong", 401), (RESERVE_TOKEN, 402)])
def test_it_ends_without_feed_and_shows_no_token(watcher: Watcher, token: str, status: int) -> None:
    watcher.token.write_text(token)
    result = watcher.run()
    assert result.exit_code == 5
    assert result.stderr.startswith("barograph: ")
    assert result.stderr.endswith(f"({status})\n")
    assert token not in f"{result.output}{result.exception}"
    assert not (watcher.folder / "references.json").exists()


def test_unreachable_service_prints_a_one_line_error(watcher: Watcher, tmp_path: Path) -> None:
    watcher.arguments[3] = f"http://127.0.0.1:{unused_port()}"
    result = watcher.run()
    assert result.exit_code == 4
    assert result.stderr == "barograph: the service could not be reached (ConnectError)\n"
    watcher.arguments[3] = "nowhere"
    assert watcher.run().exit_code == 2


def test_a_service_that_cannot_tell_now_is_no_refusal(
    watcher: Watcher, service: SubscriberService
) -> None:
    service.identities.is_down = True
    assert watcher.run().exit_code == 4
    service.identities.is_down = False
    assert watcher.run().exit_code == 0


def test_a_token_that_is_being_replaced_is_read_again_later(watcher: Watcher) -> None:
    read = token_reader(watcher.token)
    assert read() == FEED_TOKEN
    for content in ("", "two\nlines"):
        watcher.token.write_text(content)
        assert read() == FEED_TOKEN
    watcher.token.write_text("newer\n")
    assert read() == "newer"


@pytest.mark.parametrize("is_once", [True, False])
def test_an_address_without_a_service_is_a_wrong_command_line(
    watcher: Watcher, is_once: bool
) -> None:
    watcher.arguments[3] += "/elsewhere"
    if not is_once:
        watcher.arguments.remove("--once")
    result = watcher.run()
    assert result.exit_code == 2
    assert result.stderr == "barograph: there is no service at that address (404): check --url\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_it_ends_quietly_when_nobody_reads_any_more(
    watcher: Watcher, form: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    watcher.arguments.remove("--once")
    done = subprocess.run(
        [sys.executable, "-m", "barograph", *watcher.arguments, *form],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_exit_codes_are_in_the_help_and_on_the_page() -> None:
    shown = CliRunner().invoke(cli, ["watch", "--help"]).stdout
    listed = shown.partition("Exit codes:\n")[2].partition("\n\n")[0].splitlines()
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
    assert [line.split()[0] for line in listed] == ["0", "1", "2", "3", "4", "5"]
    for line in listed:
        assert f"\n| {line.split()[0]} | " in page


def test_references_that_cannot_be_used_are_said_and_left_alone(watcher: Watcher) -> None:
    kept = watcher.folder / "references.json"
    kept.write_text("mine")
    assert "move it away" in str(watcher.run().exception)
    assert kept.read_text() == "mine"


def test_in_a_terminal_it_is_a_table(watcher: Watcher) -> None:
    terminal, inside = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [sys.executable, "-m", "barograph", *watcher.arguments], stdout=inside, env=environment
    ) as command:
        os.close(inside)
        shown = b"".join(iter(lambda: read_terminal(terminal), b"")).decode()
        assert command.wait(120) == 0
    os.close(terminal)
    assert shown.startswith("┏━")
    assert f"│ {RATES} " in shown
    assert f"{RATES}: kept; the next version will be compared with it" in shown


def read_terminal(descriptor: int) -> bytes:
    """What is there; nothing once its other end is closed, which Linux calls an error."""
    with suppress(OSError):
        return os.read(descriptor, 4_096)
    return b""


def test_it_looks_again_after_the_interval_and_tells_what_is_new_once(
    service: SubscriberService, tmp_path: Path
) -> None:
    client = Barograph(BASE_URL, bearer=FEED_TOKEN, transport=InProcess(service.app))
    subscriber = Subscriber(client, ReferenceFile(tmp_path / "references.json"), [FUNDING])
    shown: list[tuple[int, list[str]]] = []
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        match len(slept):
            case 2:
                revise(service, "cautious")
            case 3 | 4:
                service.identities.is_down = True
            case 5:
                service.identities.is_down = False
                service.identities.users.clear()

    def show(tape: Any, events: Any) -> None:
        shown.append((len(tape), [type(event).__name__ for event in events]))

    with pytest.raises(WatchEnded, match=r"\(401\)"):
        follow(subscriber, show, interval=7, sleep=sleep)
    assert slept == [7] * 5
    assert shown == [
        (1, ["Kept"]),
        (0, []),
        (1, ["Compared"]),
        (0, ["Later"]),
        (0, []),
        (0, ["Stopped"]),
    ]


def test_it_waits_longer_when_it_is_told_to(tmp_path: Path) -> None:
    refused = httpx2.Response(
        503, json={"error": "x", "message": "y"}, headers={"retry-after": "90"}
    )
    client = Barograph(
        BASE_URL, bearer=FEED_TOKEN, transport=httpx2.MockTransport(lambda _: refused)
    )
    subscriber = Subscriber(client, ReferenceFile(tmp_path / "references.json"))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(subscriber, lambda *_: None, interval=7, sleep=sleep)
    assert slept == [90.0]

"""The demo as a person uses it, and the README's own words about it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.cli.common import read_settings
from barograph.cli.databases import run_once
from barograph.markets.regime import LABELS
from barograph.signals.methods import BREADTH, POSITIONING, PRESSURE, TREND, VOLATILITY
from support.browsing import DEMOS, Demo, started_demo
from support.payers import Wallet, stock_payer
from support.processes import answer_200, eventually, get, none_left, running, unused_port
from support.subscribers import FEED_ENTRY, FEED_NOW, MATERIAL_CHANGE, STANCE_READS

pytestmark = pytest.mark.e2e

_HOURLY = "SELECT contract, at, last_price FROM readings WHERE resolution = 'hour'"
README = Path(__file__).parents[2] / "README.md"
SUBSCRIBING = Path(__file__).parents[2] / "docs/subscribing.md"
ON_FILES = pytest.mark.parametrize("demo", DEMOS[:1], indirect=True)
"""What does not depend on the database engine."""

REFERENCE = {"leg": "leg_id", "revision": "revision", "digest": "history_digest"}


@pytest.fixture(scope="module", params=DEMOS)
def demo(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with request.param(tmp_path_factory.mktemp("demo")) as found:
        yield found


def test_demo_prints_its_addresses_and_says_that_its_data_is_simulated(demo: Demo) -> None:
    printed = demo.log.read_text()
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
    text = README.read_text("utf-8")
    calls = re.findall(r"^\$ (curl .*)$(?:\n(\{.*)$)?", text, re.MULTILINE)
    assert len([printed for _, printed in calls if printed]) >= 3
    for command, printed in calls:
        there = shlex.split(command.replace("http://127.0.0.1:8080", demo.base_url))
        answered = subprocess.run([*there, "--fail"], capture_output=True, check=True).stdout
        if printed:
            assert _shape(json.loads(answered)) == _shape(json.loads(printed)), command


def test_replay_writes_briefs_by_many_rules(demo: Demo) -> None:
    briefs = json.loads(_barograph("briefs", "list", "--last", "1000", "--json", demo=demo))
    written = Counter(brief["rule"] for brief in briefs if brief["rule"] != "operator")
    assert written.total() >= 50
    assert len(written) >= 4
    assert _json(demo, "/api/agent/briefs?limit=50")["count"] == 50


def test_past_shows_every_label_of_the_markets_signals(demo: Demo) -> None:
    expected = {
        "btc-funding-regime": LABELS,
        "funding-breadth": BREADTH.labels,
        "liquidation-pressure": PRESSURE.labels,
        "btc-long-accounts": POSITIONING.labels,
        "btc-open-interest-trend": TREND.labels,
        "btc-realised-volatility": VOLATILITY.labels,
    }
    seen = _rows(demo.data, "SELECT key, label FROM signal_changes")
    assert {(key, label) for key, labels in expected.items() for label in labels} <= seen


def test_the_past_holds_60_days_of_stances_of_every_sort(demo: Demo) -> None:
    listed = {
        kind: json.loads(_barograph("stances", "list", kind, "--last", "500", "--json", demo=demo))
        for kind in ("btc-etf-stance", "rates-desk", "funding-regime-stance")
    }
    for versions in listed.values():
        versions.sort(key=lambda each: each["sequence"])
        first, last = (each["leg"]["period"]["start"][:10] for each in (versions[0], versions[-1]))
        assert (date.fromisoformat(last) - date.fromisoformat(first)).days >= 55
    pairs = [
        pair
        for versions in listed.values()
        for pair in pairwise(versions)
        if pair[0]["leg_id"] == pair[1]["leg_id"]
    ]
    digests = [[each["leg"]["evidence"]["digest"] for each in pair] for pair in pairs]
    assert {before == after for before, after in digests} == {True, False}
    assert any(
        before["expires_at"] < after["issued_at"]
        for before, after in pairwise(listed["rates-desk"])
    )
    scores = [
        len({"score", "score24hAgo", "delta24h"} & set(version["leg"]["levels"]))
        for version in listed["funding-regime-stance"]
    ]
    assert {(3, 1), (1, 3)} <= set(pairwise(scores))  # after a corrected rate, for two hours


@pytest.mark.contract(
    "auth.key-registration", "auth.key-raises-allowance", "limits.signals.personal-key"
)
def test_person_registers_and_uses_the_key(demo: Demo) -> None:
    email = "api@example.com"
    with httpx2.Client(base_url=demo.base_url, trust_env=False, verify=False) as client:
        assert client.post("/api/v1/keys", json={"email": email}).status_code == 202
        link = eventually(lambda: _mailed_link(demo, email), "the mail")
        assert [client.get(link).status_code for _ in range(2)] == [200, 200]
        shown = client.post(link)
        (key,) = set(re.findall("bg_[0-9a-f]{16}_[0-9a-f]{64}", shown.text))
        assert (shown.status_code, client.post(link).status_code) == (200, 410)
        assert client.get(link).status_code == 410
        used = [client.get("/api/v1/signals", headers={"X-API-Key": key}) for _ in range(3)]
    assert [each.headers["x-ratelimit-remaining"] for each in used] == ["999", "998", "997"]
    assert {each.headers["x-ratelimit-limit"] for each in used} == {"1000"}


def test_operators_brief_shows_up_within_two_seconds(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "note.md"
    file.write_text("---\nheadline: From a file\nsummary: A sentence.\n---\nThe *text*.\n")
    published = _barograph("briefs", "publish", str(file), "--json", demo=demo)
    slug = json.loads(published)["slug"]
    found = eventually(lambda: _listed(demo, slug), "the brief", 2)
    assert (found["headline"], found["category"]) == ("From a file", "note")
    page = answer_200(found["url"])
    assert page is not None
    assert "<em>text</em>" in page.text
    assert "From a file" in _barograph("briefs", "list", demo=demo)


@pytest.mark.contract(
    "material-change.references-from-durable-reads", "comparison.funding.decision-revision-only"
)
@ON_FILES
def test_subscribers_program_compares_as_its_page_says(demo: Demo, tmp_path: Path) -> None:
    page = SUBSCRIBING.read_text("utf-8")
    for name, program in zip(("subscriber.py", "buy.py"), _blocks(page, "python"), strict=True):
        (tmp_path / name).write_text(program)
    token, first, revise, second, bought, _, by_wallet, paid, wallet = [
        _as_written(command, demo, tmp_path)
        for block in _blocks(page, "sh")
        for command in block.splitlines()
    ]
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", token)
    kinds = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
    assert first == "".join(f"{kind}: kept\n" for kind in kinds)
    assert revise.startswith("recorded ")
    said = dict(line.split(": ", 1) for line in second.splitlines())
    assessment = json.loads(said["funding-regime-stance"])
    assert assessment["change"] == "decision_revision_only"
    assert assessment["recorded_decisions"]["before"]["by"] == "rule"
    assert assessment["recorded_decisions"]["after"]["label"] == "stand-aside"
    assert "'tier': 'feed'" in bought
    said = dict(line.split(": ", 1) for line in by_wallet.splitlines())
    assert json.loads(said["funding-regime-stance"])["change"] == "decision_revision_only"
    assert [line.split()[1] for line in paid.splitlines()] == ["settled"]
    assert "private key: 0x" in wallet


@pytest.mark.thorough
@ON_FILES
def test_watch_compares_what_is_new_since_its_last_look(demo: Demo, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(_barograph("demo", "token", "--tier", "feed", demo=demo))
    place = ("--url", demo.base_url, "--token-file", str(token))
    watch = ("watch", "--once", "--json", *place, "--references", str(tmp_path / "kept.json"))
    first = [json.loads(line)["event"] for line in _barograph(*watch).splitlines()]
    assert first == ["stance"] * 3 + ["kept"] * 3
    revised = ("funding-regime-stance", "--decision", "constructive", "--why", "A test.")
    _barograph("stances", "revise", *revised, demo=demo)
    (compared,) = [json.loads(line) for line in _barograph(*watch).splitlines()][3:]
    assert compared["comparison"]["assessment"]["change"] == "decision_revision_only"


@pytest.mark.thorough
@ON_FILES
def test_stock_client_pays_for_a_stance_by_default_and_refuses_feed(
    demo: Demo, tmp_path: Path
) -> None:
    made = json.loads(_barograph("demo", "wallet", "--json", demo=demo))
    address = made["address"]
    wallet = Wallet(address, made["private_key"])
    with stock_payer(tmp_path) as payer:
        refused = payer.get(wallet, demo.base_url + FEED_ENTRY)
        paid = payer.get(wallet, demo.base_url + STANCE_READS["funding-regime-stance"])
    assert (refused.status, refused.proofs) == (None, [])
    assert "max_amount_per_payment ($1, including USDC)" in refused.refused
    assert (paid.status, paid.refused, len(paid.proofs)) == (200, "", 1)
    assert paid.body["kind"] == "funding-regime-stance"
    assert paid.receipt is not None
    assert (paid.receipt["success"], paid.receipt["payer"].lower()) == (True, address)


@pytest.mark.thorough
@pytest.mark.outcome(
    "The newest stance has expired",
    "Nobody can buy or compare it. Feed subscribers read it with the state `expired`.",
)
@ON_FILES
def test_stances_expire_and_come_back_on_request(demo: Demo) -> None:
    fault = ("demo", "fault", "stance")
    assert _barograph(*fault, "on", "--kind", "expired", demo=demo) == "stance: expired\n"
    for kind in STANCE_READS:
        assert _doors(demo, kind) == (
            (404, "stance_not_active"),
            (404, "comparison_reference_unavailable"),
            (200, "expired", "expired"),
        )
    assert _barograph(*fault, "on", demo=demo) == "stance: expired\n"
    for _ in range(2):
        assert _barograph(*fault, "off", demo=demo) == "stance: no fault\n"
    (offered, _), compared, read = _doors(demo, "funding-regime-stance")
    assert (offered, compared, read) == (200, (200, None), (200, "active", "active"))
    _barograph("stances", "verify", demo=demo)


@pytest.mark.thorough
@pytest.mark.outcome(
    "A witness has cosigned another tree of the log",
    "It refuses. Its check in `/api/status` is `down` until it cosigns again. A quorum of "
    "the others still publishes checkpoints.",
)
@ON_FILES
def test_witness_that_refuses_is_shown_and_two_others_still_publish(demo: Demo) -> None:
    def size() -> int:
        answer = eventually(lambda: answer_200(f"{demo.base_url}/history/events/checkpoint"), "")
        return int(answer.text.split("\n")[1])

    def state() -> str:
        checks = _json(demo, "/api/status")["checks"]
        (found,) = (each["status"] for each in checks if each["name"] == "witness-simulated-3")
        return str(found)

    eventually(lambda: state() == "ok", "a cosignature")
    before, fault = size(), ("demo", "fault", "witness")
    chosen = ("--kind", "fork", "--path", "simulated-3")
    assert _barograph(*fault, "on", *chosen, demo=demo) == "witness: fork on simulated-3\n"
    _barograph("demo", "fault", "stance", "on", demo=demo)  # adds a version of every kind
    eventually(lambda: state() == "down", "the refusal")
    eventually(lambda: size() > before, "the next checkpoint")
    page = eventually(lambda: answer_200(f"{demo.base_url}/record"), "the page").text
    assert "A witness refuses this log." in page
    assert "These witnesses are simulated" in page
    _barograph("demo", "fault", "stance", "off", demo=demo)
    assert _barograph(*fault, "off", demo=demo) == "witness: no fault\n"
    eventually(lambda: state() == "ok", "the end of the refusal", 240)


def test_second_demo_in_the_same_folder_is_refused(demo: Demo, tmp_path: Path) -> None:
    arguments = ("demo", "--port", str(unused_port()), "--data", str(demo.data))
    with running(*arguments, log=tmp_path / "log") as second:
        assert second.popen.wait(60) == 3
    assert "in use by another process" in (tmp_path / "log").read_text()


@pytest.mark.thorough
def test_fresh_demo_starts_over_and_fills_its_past_over_the_wire(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "world.json").write_text('{"seed":1,"epoch":1789999200000}')
    (data / "history.sqlite3").write_text("an older demo's record")
    (data / "notes.txt").write_text("not the demo's")
    with started_demo(tmp_path, "--fresh", "--seed", "5") as fresh:
        assert json.loads((data / "world.json").read_text())["seed"] == 5
        assert (data / "notes.txt").exists()
        assert _json(fresh, "/api/agent/market-state")["liq24h"]["available"] is False
        btc = "SELECT at FROM readings WHERE resolution = 'hour' AND contract = 'BTCUSDT'"
        eventually(lambda: len(_rows(data, btc)) >= 30 * 24 or None, "30 days of BTC")
    (tmp_path / "log").unlink()
    with started_demo(tmp_path) as later:  # replays nothing either, so it has no past ETF days
        checks = eventually(lambda: _etf_checks(later), "a reading of the ETF's file")
        assert [each["status"] for each in checks] == ["warming_up"]


@pytest.mark.thorough
@pytest.mark.outcome(
    "Ctrl-C interrupts the demo's replay, even twice",
    "It stops at once with exit code 130. The next start resumes.",
)
def test_interrupted_replay_stops_at_once_without_a_trace(tmp_path: Path) -> None:
    arguments = ("demo", "--port", str(unused_port()), "--data", str(tmp_path / "data"))
    with running(*arguments, log=tmp_path / "log") as process:
        eventually(lambda: len(process.family()) > 5 or None, "the replay beside the children")
        family = process.family()
        told = [each for each in family if os.getpgid(each.pid) == process.pid]
        assert len(told) == len(family) - 3  # the servers, the collector and the web
        for each in (*told, family[0], family[0]):  # a terminal tells the whole group
            each.send_signal(signal.SIGINT)
        assert process.popen.wait(60) == 130
        assert none_left(family)
    printed = [line for line in (tmp_path / "log").read_text().splitlines() if line]
    assert printed == ["replaying the simulated past ...", "interrupted"]


@pytest.mark.thorough
def test_stopped_demo_leaves_nothing_and_continues_its_record_at_once(demo: Demo) -> None:
    """Runs last: it stops the demo that the others use."""
    _barograph("demo", "fault", "stance", "on", demo=demo)
    eventually(lambda: len(_rows(demo.data, _HOURLY)) > 90_000, "the older samples", 240)
    family = demo.process.family()
    assert len(family) >= 5
    assert demo.process.stop(signal.SIGINT) < 30
    assert none_left(family)
    demo.log.write_text("")
    world, record = (demo.data / "world.json").read_text(), _rows(demo.data, _HOURLY)
    assert len(record) > 90_000  # older samples followed the replay
    with started_demo(demo.data.parent) as again:
        assert (demo.data / "world.json").read_text() == world
        assert _json(again, "/api/agent/market-state")["liq24h"]["available"] is True
        assert record <= _rows(demo.data, _HOURLY)
        shown = _barograph("stances", "show", "funding-regime-stance", "--json", demo=again)
        assert json.loads(shown)["state"] == "active"  # no fault outlives its demo


def _doors(demo: Demo, kind: str) -> tuple[Any, Any, Any]:
    """How one kind's newest stance is sold, compared and read with Feed."""
    proof = _barograph("demo", "proof", "--wallet", "reserve", "--for", "stance", demo=demo)
    feed = {"Authorization": f"Bearer {_barograph('demo', 'token', demo=demo).strip()}"}
    listed = json.loads(_barograph("stances", "list", kind, "--last", "2", "--json", demo=demo))
    sides = zip(("after", "before"), listed, strict=True)
    pair = {"kind": kind} | {
        f"{side}_{name}": version[member]
        for side, version in sides
        for name, member in REFERENCE.items()
    }
    with httpx2.Client(base_url=demo.base_url, trust_env=False, verify=False, timeout=30) as client:
        sold = client.get(STANCE_READS[kind], headers={"PAYMENT-SIGNATURE": proof.strip()})
        compared = client.get(MATERIAL_CHANGE, params=pair, headers=feed)
        read = client.get(STANCE_READS[kind], headers=feed)
        tape = client.get(FEED_NOW, headers=feed).json()["tape"]["stance_tape"]
    (on_tape,) = (each["state"] for each in tape if each["kind"] == kind)
    return (
        (sold.status_code, sold.json().get("error")),
        (compared.status_code, compared.json().get("error")),
        (read.status_code, read.json()["state"], on_tape),
    )


def _etf_checks(demo: Demo) -> list[dict[str, str]] | None:
    """The check of ETF flows, as soon as they are read."""
    checks = _json(demo, "/api/status")["checks"]
    found = [each for each in checks if each["name"] == "etf-flows"]
    return None if found[0]["detail"] == "not read yet" else found


def _json(demo: Demo, path: str) -> Any:
    response = get(demo.base_url + path)
    assert response is not None
    return response.json()


def _rows(data: Path, query: str) -> set[tuple[object, ...]]:
    address = read_settings(data=data).database_address
    return set(run_once(address, lambda database: database.fetch(query), create=False))


def _mailed_link(demo: Demo, email: str) -> str | None:
    for mail in json.loads(_barograph("demo", "mail", "--json", demo=demo)):
        if mail["to"] == [email]:
            return str(re.findall(rf"{demo.base_url}/keys/[\w-]+", mail["text"])[0])
    return None


def _listed(demo: Demo, slug: str) -> Any:
    briefs = _json(demo, "/api/agent/briefs")["briefs"]
    return next((each for each in briefs if each["url"].endswith(f"/briefs/{slug}")), None)


def _barograph(*arguments: str, demo: Demo | None = None) -> str:
    folder = [] if demo is None else ["--data", str(demo.data)]
    command = [sys.executable, "-m", "barograph", *arguments, *folder]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def _as_written(command: str, demo: Demo, folder: Path) -> str:
    """Run a command of a page, whose demo has another port and folder; return what it prints."""
    here = command.replace("http://127.0.0.1:8080", demo.base_url)
    here = here.replace("data/demo", shlex.quote(str(demo.data)))
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", here], cwd=folder, env=programs, capture_output=True, check=True, text=True
    )
    return done.stdout


def _shape(value: Any) -> Any:
    """Names and types, without the numbers, which move."""
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return type(value).__name__

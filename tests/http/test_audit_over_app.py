"""The audit of an outsider over the production application."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barograph.events.store import remove_text
from barograph.history.origins import rotate_key, start_origin
from barograph.history.records import Version
from barograph.stances.version_events import VersionEvents
from barograph_client.audit.command import main
from barograph_client.clients import AsyncBarograph
from support.events import add_events, change
from support.history import RATES, PublicHistory, delivered
from support.readers import InProcess
from support.service import BASE_URL

SIZE = 300


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    history = PublicHistory(tmp_path_factory.mktemp("audit"))
    history.withdraw(history.record(SIZE)[-1])
    service = history.service
    asyncio.run(add_events(service.database, [change(number) for number in range(25)]))
    asyncio.run(VersionEvents(service.database, history.ledger).announce(service.lease))
    yield history
    history.close()


@pytest.fixture(scope="module")
def version(history: PublicHistory) -> Version:
    return history.version(7)


def audit(
    history: PublicHistory, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of an audit of a new worker."""
    worker = history.service.new_worker()
    asyncio.run(worker.board.refresh())
    connect = partial(AsyncBarograph, transport=InProcess(worker.app))
    code = main([BASE_URL, "--json", *options], connect=connect)
    return code, json.loads(capsys.readouterr().out)


def test_all_seven_logs_of_a_service_pass(
    history: PublicHistory, capsys: pytest.CaptureFixture[str]
) -> None:
    ((text,),) = asyncio.run(
        history.service.database.fetch("SELECT digest FROM events WHERE id = 25")
    )

    async def remove(tx: Any) -> None:
        await remove_text(tx, text, "it named a person")

    asyncio.run(history.service.database.write(remove))
    code, report = audit(history, capsys)

    assert code == 0, report
    logs = {each["log"]: each for each in report["logs"]}
    assert (len(logs), logs[RATES]["size"], logs[f"{RATES}/events"]["size"]) == (7, SIZE, 1)
    events = logs["events"]
    assert (events["size"], events["texts"], events["removed"]) == (SIZE + 25, SIZE + 24, [25])


def test_a_service_that_grew_and_changed_its_key_and_its_name_still_passes(
    history: PublicHistory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept.json")
    audit(history, capsys, "--save", kept)
    for change_key in (rotate_key, start_origin):
        history.record(SIZE + 10)
        history.change_key(change_key)
        code, report = audit(history, capsys, "--kept", kept)
        assert code == 0, report
    rates = next(each for each in report["logs"] if each["log"] == RATES)

    assert (rates["size"], rates["kept_size"]) == (SIZE + 10, SIZE)
    assert "/history-" in rates["key"]


def test_a_delivered_stance_is_proven_offline(
    history: PublicHistory, version: Version, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = history.ask("/api/history/checkpoint").json()["checkpoints"]
    keys = {each["kind"]: each["verifier"] for each in published if each["log"] == "versions"}
    folder = keys[RATES].partition("+")[0].removeprefix("barograph.example")
    proof, body = tmp_path / "proof", tmp_path / "stance.json"
    proof.write_bytes(history.ask(f"{folder}/{version.history_digest}.tlog-proof").body)
    check = ["--stance", str(body), "--proof", str(proof), "--key", keys[RATES]]

    body.write_text(json.dumps(delivered(version)), "utf-8")
    assert main(check) == 0
    assert capsys.readouterr().out.startswith(
        "The leg, salt and times of the stance are those of sequence 7"
    )
    assert main(check[:-2]) == 2

    changed = delivered(version)
    changed["leg"]["decision"]["label"] = "constructive"
    body.write_text(json.dumps(changed), "utf-8")
    assert main(check) == 1
    assert "it is not what was recorded" in capsys.readouterr().err


def test_a_changed_time_of_issue_contradicts_the_log_of_events(
    history: PublicHistory, capsys: pytest.CaptureFixture[str]
) -> None:
    history.tamper("UPDATE stance_versions SET issued_at = issued_at + 1 WHERE sequence = 7")
    code, report = audit(history, capsys)

    assert code == 1
    assert f"events: event 32 says that version 7 of {RATES} is " in report["message"]

"""The audit of an outsider over the production application."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barograph.events.store import remove_text
from barograph.history.checkpoint import Checkpoint, sign_checkpoint
from barograph.history.merkle import tree_root
from barograph.history.records import Version
from barograph.history.signing import load_history_key
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
    asyncio.run(add_events(history.service.database, [change(number) for number in range(25)]))
    history.withdraw(history.record(SIZE)[-1])
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


def test_log_of_a_service_passes(
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
    log = report["log"]
    assert (log["size"], log["texts"], log["removed"]) == (SIZE + 26, SIZE + 25, [25])


def test_a_service_that_grew_and_changed_its_key_and_its_name_still_passes(
    history: PublicHistory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept.json")
    audit(history, capsys, "--save", kept)
    for change_key in (history.rotate_key, history.start_origin):
        history.record(SIZE + 10)
        change_key()
        code, report = audit(history, capsys, "--kept", kept)
        assert code == 0, report

    assert (report["log"]["size"], report["log"]["kept_size"]) == (SIZE + 36, SIZE + 26)
    assert "/history-" in report["log"]["key"]


def old_note(history: PublicHistory, size: int, kind: str = RATES, *, skipped: int = 0) -> str:
    """A checkpoint of the log that a kind had of its own, as an earlier version signed it.

    `skipped` leaves out the first entries, as if the list had been another one.
    """
    listed = history.ask(f"/api/history/{kind}?limit=1000").json()["entries"]
    digests = [each["history_digest"] for each in listed[skipped : skipped + size]]
    checkpoint = Checkpoint(f"barograph.example/history/{kind}", size, tree_root(digests))
    return sign_checkpoint(checkpoint, load_history_key(history.service.settings))


def test_kept_checkpoint_of_an_old_log_is_recomputed_from_the_list_of_its_kind(
    history: PublicHistory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text(old_note(history, 200), "utf-8")
    assert audit(history, capsys, "--kept", str(kept))[0] == 0

    kept.write_text(old_note(history, 199, skipped=1), "utf-8")
    code, report = audit(history, capsys, "--kept", str(kept))
    assert (code, "its first 199 entries give the root" in report["message"]) == (1, True)


def test_a_delivered_stance_is_proven_offline(
    history: PublicHistory, version: Version, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = history.ask("/api/history/checkpoint").json()["verifier"]
    folder = key.partition("+")[0].removeprefix("barograph.example")
    proof, body = tmp_path / "proof", tmp_path / "stance.json"
    proof.write_bytes(history.ask(f"{folder}/{version.history_digest}.tlog-proof").body)
    check = ["--stance", str(body), "--proof", str(proof), "--key", key]

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
    assert f"event 32 says that version 7 of {RATES} is " in report["message"]

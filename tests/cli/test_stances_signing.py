"""`barograph stances resume` and `rotate-key`."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.databases import run_once
from barograph.history.checkpoint import RetiredKey
from barograph.history.guards import SigningRefused
from barograph.history.origins import hold_signing
from barograph.history.signing import FILE_NAME, NEXT_FILE
from barograph.settings import Settings
from support.events import add_events, change
from support.history import tamper
from support.operator import Operator, on_database, sign
from support.stances import FUNDING

NEW_KEY = b64encode(b"n" * 32).decode()


def signed(operator: Operator, **changed: Any) -> tuple[list[str], list[RetiredKey]]:
    settings = Settings(data=operator.data, **changed)
    return asyncio.run(sign(operator.database, operator.history, settings))


def restore(operator: Operator) -> None:
    on_database(
        operator.database, lambda database: database.write(lambda tx: hold_signing(tx, 1_000))
    )


@pytest.fixture
def kept(operator: Operator, tmp_path: Path) -> Path:
    """The checkpoints of a record with one version."""
    operator.record(0)
    file = tmp_path / "kept.json"
    notes, _ = signed(operator)
    file.write_text(json.dumps({"checkpoints": [{"checkpoint": each} for each in notes]}), "utf-8")
    return file


def key_of(operator: Operator) -> bytes:
    return (operator.data / FILE_NAME).read_bytes()


def test_record_that_holds_everything_signed_resumes_after_a_question(
    operator: Operator, kept: Path
) -> None:
    operator.record(1)
    restore(operator)
    assert operator.run("resume", "--checkpoint", str(kept), answers="n\n").exit_code == 1
    with pytest.raises(SigningRefused):
        signed(operator)
    result = operator.run("resume", "--checkpoint", str(kept), answers="y\n")
    assert result.exit_code == 0, result.output
    compared = f"{FUNDING} versions: the record has 2 entries, including all 1 that were signed\n"
    assert compared in result.stdout
    assert len(signed(operator)[0]) == 7


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_log_of_events_that_lost_some_begins_again_under_another_name(
    operator: Operator, tmp_path: Path, is_kept: bool
) -> None:
    operator.record(0)
    run_once(operator.database, lambda database: add_events(database, [change(1), change(2)]))
    *stances, events = signed(operator)[0]
    notes = [*stances, events] if is_kept else stances
    file = tmp_path / "kept.json"
    file.write_text(json.dumps({"checkpoints": [{"checkpoint": each} for each in notes]}), "utf-8")
    run_once(
        operator.database, lambda database: tamper(database, "DELETE FROM events WHERE id = 2")
    )
    restore(operator)

    result = operator.run("resume", "--checkpoint", str(file), "--yes")

    assert result.exit_code == 0, result.output
    *same, again = signed(operator)[0]
    assert same == stances
    origin, size, *_ = again.split("\n")
    assert f"the log of events begins again as {origin}\n" in result.stdout
    assert (origin != events.split("\n")[0], size) == (True, "1")


def test_resume_names_what_a_record_lacks_and_a_new_origin_makes_another_log(
    operator: Operator, kept: Path
) -> None:
    old = key_of(operator)
    operator.tamper("DELETE FROM stance_versions")
    restore(operator)
    assert str(operator.refused("resume", "--checkpoint", str(kept), "--yes")) == (
        f"nothing is signed: {FUNDING} versions: it lacks 1 of the 1 entries that were signed. "
        "Restore a newer backup, or start a new log with `barograph stances resume --new-origin`"
    )
    result = operator.run("resume", "--new-origin", "--yes")
    assert result.exit_code == 0, result.output
    assert key_of(operator) != old
    aside = operator.data.glob(f"{FILE_NAME}.*.retired")
    assert [(each.read_bytes(), each.stat().st_mode & 0o077) for each in aside] == [(old, 0)]
    assert "/history-" in signed(operator)[0][0]
    assert operator.run("resume").exit_code == 2


def test_key_in_the_environment_is_changed_by_the_operator(operator: Operator) -> None:
    operator.record(0)
    old = {"BAROGRAPH_HISTORY_KEY": b64encode(bytes(32)).decode()}
    signed(operator, history_key=old["BAROGRAPH_HISTORY_KEY"])
    assert "give its next value with --new-key" in str(
        operator.refused("rotate-key", "--yes", **old)
    )
    rotation = ("rotate-key", "--new-key", "-", "--yes")
    result = operator.run(*rotation, answers=NEW_KEY + "\n", **old)
    assert result.exit_code == 0, result.output
    assert NEW_KEY not in result.output
    assert "Set BAROGRAPH_HISTORY_KEY to the new key on every web host" in result.stdout
    with pytest.raises(SigningRefused):
        signed(operator, history_key=old["BAROGRAPH_HISTORY_KEY"])
    signed(operator, history_key=NEW_KEY)
    refused = operator.refused("resume", "--new-origin", "--yes", BAROGRAPH_HISTORY_KEY=NEW_KEY)
    assert "the new key has signed checkpoints before" in str(refused)


def test_refused_change_of_the_key_leaves_no_new_key(operator: Operator, kept: Path) -> None:
    restore(operator)
    assert "restored from a backup" in str(operator.refused("rotate-key", "--yes"))
    assert not (operator.data / NEXT_FILE).exists()


@pytest.mark.parametrize("command", [("rotate-key",), ("resume", "--new-origin")])
def test_interrupted_change_of_the_key_is_completed_by_the_next_run_and_not_repeated(
    operator: Operator, kept: Path, command: tuple[str, ...]
) -> None:
    old, file = key_of(operator), operator.data / FILE_NAME
    assert operator.run(*command, "--yes").exit_code == 0
    new = file.rename(operator.data / NEXT_FILE).read_bytes()  # as before the last step
    file.write_bytes(old)
    file.chmod(0o600)
    with pytest.raises(SigningRefused):
        signed(operator)
    assert "is complete now" in str(operator.refused(*command, "--yes"))
    assert key_of(operator) == new
    assert len(signed(operator)[1]) == 1

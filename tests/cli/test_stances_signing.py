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

NEW_KEY = b64encode(b"n" * 32).decode()


def signed(operator: Operator, **changed: Any) -> tuple[str, list[RetiredKey]]:
    settings = Settings(data=operator.data, **changed)
    return asyncio.run(sign(operator.database, operator.history, settings))


def restore(operator: Operator) -> None:
    on_database(
        operator.database, lambda database: database.write(lambda tx: hold_signing(tx, 1_000))
    )


@pytest.fixture
def kept(operator: Operator, tmp_path: Path) -> Path:
    """The checkpoint of a log with one event."""
    log_event(operator, 1)
    file = tmp_path / "kept.json"
    file.write_text(json.dumps({"checkpoint": signed(operator)[0]}), "utf-8")
    return file


def log_event(operator: Operator, number: int) -> None:
    run_once(operator.database, lambda database: add_events(database, [change(number)]))


def key_of(operator: Operator) -> bytes:
    return (operator.data / FILE_NAME).read_bytes()


def test_log_that_holds_everything_signed_resumes_after_a_question(
    operator: Operator, kept: Path
) -> None:
    log_event(operator, 2)
    restore(operator)
    assert operator.run("resume", "--checkpoint", str(kept), answers="n\n").exit_code == 1
    with pytest.raises(SigningRefused):
        signed(operator)
    result = operator.run("resume", "--checkpoint", str(kept), answers="y\n")
    assert result.exit_code == 0, result.output
    assert "/history/events holds everything that was signed, and is signed again" in result.stdout
    assert signed(operator)[0].splitlines()[1] == "2"


@pytest.mark.parametrize("is_kept", [True, False])
def test_log_that_is_not_proven_complete_continues_under_another_name(
    operator: Operator, kept: Path, is_kept: bool
) -> None:
    key = key_of(operator)
    run_once(operator.database, lambda database: tamper(database, "DELETE FROM events"))
    restore(operator)

    result = operator.run("resume", *(["--checkpoint", str(kept)] if is_kept else []), "--yes")

    assert result.exit_code == 0, result.output
    origin, size, *_ = signed(operator)[0].split("\n")
    why = "it lacks 1 of the 1 entries" if is_kept else "no checkpoint was given"
    assert f"not proven complete: {why}" in result.stdout
    assert f"the log is now {origin}, and its public key is " in result.stdout
    assert ("/history-" in origin, size, key_of(operator)) == (True, "0", key)


def test_key_in_the_environment_is_changed_by_the_operator(operator: Operator) -> None:
    log_event(operator, 1)
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
    again = {"BAROGRAPH_HISTORY_KEY": NEW_KEY, "answers": NEW_KEY + "\n"}
    assert "has signed checkpoints before" in str(operator.refused(*rotation, **again))


def test_refused_change_of_the_key_leaves_no_new_key(operator: Operator, kept: Path) -> None:
    restore(operator)
    assert "restore from a backup was interrupted" in str(operator.refused("rotate-key", "--yes"))
    assert not (operator.data / NEXT_FILE).exists()


def test_interrupted_change_of_the_key_is_completed_by_the_next_run_and_not_repeated(
    operator: Operator, kept: Path
) -> None:
    old, file = key_of(operator), operator.data / FILE_NAME
    assert operator.run("rotate-key", "--yes").exit_code == 0
    new = file.rename(operator.data / NEXT_FILE).read_bytes()  # as before the last step
    file.write_bytes(old)
    file.chmod(0o600)
    with pytest.raises(SigningRefused):
        signed(operator)
    assert "is complete now" in str(operator.refused("rotate-key", "--yes"))
    assert key_of(operator) == new
    assert len(signed(operator)[1]) == 1

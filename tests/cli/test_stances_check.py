"""`barograph stances verify` and `prove`: what they notice, and with what they end."""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.databases import run_once
from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import CheckpointRefused
from barograph.history.guards import RecordReplaced
from barograph.history.signing import FILE_NAME
from barograph.kit.database import Row
from barograph.settings import Settings
from support.databases import upgraded_database
from support.events import add_events, change
from support.history import tamper
from support.operator import REVISE, WITHDRAW, Operator, sign
from support.stances import FUNDING, RATES

READING = [("list", FUNDING), ("show", FUNDING), ("verify",)]
ALL = [*READING, REVISE, WITHDRAW]


def test_a_whole_record_is_verified_with_its_counts(operator: Operator) -> None:
    empty = {"ok": True, "kinds": {}, "published": None, "events": 0}
    assert operator.read_json("verify") == empty
    assert operator.run("verify").stdout == "nothing is recorded yet\n"
    operator.record(0)
    operator.record(1)
    operator.record(0, kind=RATES)
    operator.run(*WITHDRAW)
    text = operator.run("verify")

    counts = {FUNDING: {"versions": 2, "events": 1}, RATES: {"versions": 1, "events": 0}}
    assert operator.read_json("verify") == {**empty, "kinds": counts}
    assert text.stdout.splitlines() == [
        "funding-regime-stance: 2 versions, 1 events, all as recorded",
        "rates-desk: 1 versions, 0 events, all as recorded",
    ]
    assert "the service has published nothing to compare the record with" in text.stderr


def broken(operator: Operator, record: str, sequence: int) -> str:
    """What `verify` says is wrong with a version or event, and says with and without `--json`."""
    plain, told = operator.run("verify"), operator.run("verify", "--json")
    assert (plain.exit_code, told.exit_code) == (1, 1)
    found = json.loads(told.stdout)
    assert (found["ok"], found["kind"]) == (False, FUNDING)
    assert (found["record"], found["sequence"]) == (record, sequence)
    named, _, why = plain.stdout.partition(": ")[2].partition(": ")
    assert named == f"{FUNDING} {record} number {sequence}"
    return why


@pytest.mark.parametrize(
    ("table", "words", "record", "sequence"),
    [
        ("stance_versions", "'neutral', 'cautious'", "version", 2),
        ("stance_events", "'wrong', 'right'", "event", 1),
    ],
)
def test_a_changed_version_or_event_is_named_and_ends_with_one(
    operator: Operator, table: str, words: str, record: str, sequence: int
) -> None:
    for number in range(3):
        operator.record(number)
    operator.run(*WITHDRAW)
    change = f"UPDATE {table} SET document = replace(document, {words})"
    operator.tamper(f"{change} WHERE sequence = {sequence}")

    assert broken(operator, record, sequence)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE events SET body = '{}' WHERE id = 2", "event 2 was changed, or is missing"),
        ("UPDATE events SET type = 'outage.started' WHERE id = 2", "event 2 was changed, or is"),
        ("UPDATE events SET at = 1 WHERE id = 2", "event 2 was changed, or is missing"),
        ("UPDATE events SET body = '' WHERE id = 2", "event 2 was changed, or is missing"),
        ("UPDATE events SET body = '', removed = 'x' WHERE id = 1", "event 1 was changed, or is"),
        ("UPDATE events SET id = 4 WHERE id = 3", "event 3 was changed, or is missing"),
        ("DELETE FROM events WHERE id = 3", "the signed checkpoint of 3 entries does not match"),
    ],
)
def test_the_log_of_events_is_verified_against_its_digests_and_what_was_signed(
    operator: Operator, statement: str, said: str
) -> None:
    added = [change(0, "stance.recorded"), *(change(number) for number in (1, 2))]
    run_once(operator.database, lambda database: add_events(database, added))
    asyncio.run(sign(operator.database, operator.history))
    assert operator.run("verify").stdout == "log of events: 3 events, all as logged and signed\n"
    rename = """UPDATE history_origin SET keys = replace(keys, '"name":""', '"name":"other"')"""
    run_once(operator.database, lambda database: tamper(database, statement, rename))

    result = operator.run("verify")
    assert (result.exit_code, said in result.stdout) == (1, True)


CONTENTS: dict[str, Callable[[Operator], bytes]] = {
    "empty": lambda _: b"",
    "some text": lambda _: b"what I did in May\n" * 300,
    "another database": lambda operator: upgraded(operator.data / "other").read_bytes(),
}


def upgraded(folder: Path) -> Path:
    other = Operator(folder)
    other.make_record()
    return other.database


@pytest.mark.parametrize("arguments", ALL, ids=lambda each: each[0])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.outcome(
    "The history file is empty or not a history",
    "Every `stances` command says so, exits with 3 and leaves the file unchanged.",
)
def test_missing_file_or_one_that_is_not_a_history_is_refused_and_left_as_it_is(
    newcomer: Operator, arguments: tuple[str, ...], content: str
) -> None:
    assert "no history" in str(newcomer.refused(*arguments))
    assert not newcomer.data.exists()
    newcomer.data.mkdir()
    before = CONTENTS[content](newcomer)
    newcomer.history.write_bytes(before)
    refusal = newcomer.refused(*arguments)

    assert isinstance(refusal, ConfigurationError)
    assert f"no history in {newcomer.history}" in str(refusal)
    assert "empty or something else" in str(refusal)
    assert newcomer.history.read_bytes() == before


@pytest.mark.parametrize("arguments", ALL, ids=lambda each: each[0])
def test_a_record_of_an_older_version_is_not_brought_up_to_date_by_looking(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    operator.record()
    operator.tamper("DELETE FROM schema_migrations WHERE number = 2")
    for _ in range(2):
        refusal = operator.refused(*arguments)

        assert isinstance(refusal, ConfigurationError)
        assert "barograph db upgrade" in str(refusal)


def test_a_record_that_is_missing_beside_a_service_is_to_be_put_back(operator: Operator) -> None:
    operator.history.rename(operator.data / "aside")
    refusal = operator.refused("verify")

    assert isinstance(refusal, ConfigurationError)
    assert "put the history back" in str(refusal)
    assert "db upgrade" not in str(refusal)
    assert not operator.history.exists()


def test_a_record_elsewhere_is_found_by_its_address(operator: Operator, tmp_path: Path) -> None:
    operator.record()
    elsewhere = tmp_path / "elsewhere" / "stances.sqlite3"
    elsewhere.parent.mkdir()
    address = {"BAROGRAPH_HISTORY_URL": f"sqlite:///{elsewhere}"}

    assert f"no history in {elsewhere}" in str(operator.refused("verify", **address))
    operator.history.rename(elsewhere)
    assert len(operator.read_json("list", FUNDING, **address)) == 1


def test_a_record_is_compared_with_what_was_published(operator: Operator) -> None:
    operator.record(0)
    operator.record(1)
    operator.publish()
    operator.record(2)
    operator.record(0, kind=RATES)

    assert operator.read_json("verify")["published"] == {FUNDING: 2}
    assert operator.run("verify").stdout.splitlines() == [
        "funding-regime-stance: 3 versions, 0 events, all as recorded, up to number 2 as published",
        "rates-desk: 1 versions, 0 events, all as recorded",
    ]


@pytest.mark.outcome(
    "The history was replaced by an older copy or a new file",
    "`stances verify` names what is changed or missing.",
)
@pytest.mark.parametrize(("record", "sequence"), [("version", 2), ("version", 1), ("event", 1)])
def test_older_copy_or_new_file_in_place_of_the_history_is_reported(
    operator: Operator, record: str, sequence: int
) -> None:
    older = operator.history.read_bytes()
    operator.record(0)
    if (record, sequence) != ("version", 1):
        older = operator.history.read_bytes()
        operator.record(1) if record == "version" else operator.run(*WITHDRAW)
    operator.publish()
    operator.history.write_bytes(older)
    why = f"it is not the {record} that was published\n"

    assert broken(operator, record, sequence) == why
    if record == "version":  # nor does another version of that number replace it
        operator.record(sequence - 1)
        operator.record(sequence)
        assert broken(operator, record, sequence) == why


@pytest.mark.outcome(
    "`stances verify` can't read the service's database",
    "It checks only the history, says so, and exits with 1.",
)
def test_record_that_cannot_be_compared_is_not_called_verified(operator: Operator) -> None:
    operator.record()
    nowhere = {"BAROGRAPH_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    plain, told = operator.run("verify", **nowhere), operator.run("verify", "--json", **nowhere)

    assert (plain.exit_code, told.exit_code) == (1, 1)
    assert "all as recorded" in plain.stdout
    assert "not compared with what the service published" in plain.stderr
    assert "published nothing" not in plain.stderr
    assert json.loads(told.stdout)["ok"] is False


@pytest.mark.parametrize("content", [b"", b"what I did in May\n" * 300])
def test_a_service_s_database_that_is_none_leaves_the_record_to_itself(
    operator: Operator, content: bytes
) -> None:
    operator.record()
    operator.database.write_bytes(content)

    assert operator.read_json("verify")["published"] is None
    assert operator.database.read_bytes() == content


BASE_URL = "http://127.0.0.1:8123"


class Holder:
    """Who got a stance, and kept a checkpoint."""

    def __init__(self, operator: Operator, folder: Path) -> None:
        self.operator = operator
        self.stance = folder / "stance.json"
        self.kept = folder / "kept.txt"

    def take(self) -> None:
        body = self.operator.read_json("show", FUNDING)
        self.stance.write_text(json.dumps(body))

    def keep(self, base_url: str = BASE_URL) -> None:
        settings = Settings(data=self.operator.data, base_url=base_url)
        self.operator.log()
        note, _ = asyncio.run(sign(self.operator.database, self.operator.history, settings))
        self.kept.write_text(note, "utf-8")

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("prove", str(self.stance), "--kept", str(self.kept))


@pytest.fixture
def holder(operator: Operator, tmp_path: Path) -> Holder:
    """Who holds the second of three versions, and a checkpoint of two."""
    holder = Holder(operator, tmp_path)
    operator.record(0)
    operator.record(1)
    holder.take()
    holder.keep()
    operator.record(2)
    operator.log()
    return holder


def forget_origin(operator: Operator) -> None:
    delete = "DELETE FROM history_origin"
    run_once(operator.database, lambda it: it.write(lambda tx: tx.execute(delete)))


def proved(operator: Operator, *arguments: str, **environment: str) -> Any:
    told = operator.read_json(*arguments, **environment)
    return told["sequence"], told["size"], told["older_size"]


def test_a_stance_is_proved_against_a_kept_checkpoint(operator: Operator, holder: Holder) -> None:
    arguments, address = holder.arguments, {"BAROGRAPH_BASE_URL": BASE_URL}

    assert proved(operator, *arguments[:2]) == (2, 3, None)
    assert proved(operator, *arguments, **address) == (2, 3, 2)
    assert "nothing up to entry 2 was rewritten" in operator.run(*arguments, **address).stdout


def test_proving_a_stance_does_not_upgrade_the_database(operator: Operator, holder: Holder) -> None:
    def run(sql: str) -> list[Row]:
        return run_once(operator.database, lambda it: it.write(lambda tx: tx.fetch(sql)))

    run("DELETE FROM schema_migrations WHERE number > 23 RETURNING number")
    assert proved(operator, *holder.arguments[:2]) == (2, 3, None)
    assert run("SELECT max(number) FROM schema_migrations") == [(23,)]


@pytest.mark.parametrize("log", [FUNDING, f"{FUNDING}/events"])
def test_a_checkpoint_of_an_earlier_log_is_for_the_audit(
    operator: Operator, holder: Holder, log: str
) -> None:
    note = holder.kept.read_text("utf-8").replace("/history/events", f"/history/{log}")
    holder.kept.write_text(note, "utf-8")
    refusal = operator.refused(*holder.arguments, BAROGRAPH_BASE_URL=BASE_URL)
    assert "`barograph audit URL --kept FILE`" in str(refusal)


def test_the_checkpoint_of_a_running_demo_is_known_by_its_folder(
    operator: Operator, holder: Holder
) -> None:
    (operator.data / "demo.json").write_text(json.dumps({"base_url": BASE_URL}))

    assert proved(operator, *holder.arguments) == (2, 3, 2)


def test_a_kept_checkpoint_verifies_after_a_rotation_and_is_refused_after_a_new_origin(
    operator: Operator, holder: Holder
) -> None:
    address = {"BAROGRAPH_BASE_URL": BASE_URL}
    assert operator.run("rotate-key", "--yes", **address).exit_code == 0
    assert proved(operator, *holder.arguments, **address) == (2, 3, 2)
    assert operator.run("resume", "--yes", **address).exit_code == 0
    said = str(operator.refused(*holder.arguments, **address))
    assert "127.0.0.1:8123/history/events, which has ended" in said


def test_a_checkpoint_of_another_log_is_told_from_a_forged_one(
    operator: Operator, holder: Holder
) -> None:
    refusal = operator.refused(*holder.arguments, BAROGRAPH_BASE_URL="https://barograph.example")
    said = str(refusal)

    assert isinstance(refusal, CheckpointRefused)
    assert "127.0.0.1:8123/history/events" in said
    assert "barograph.example/history/events" in said
    assert "Set BAROGRAPH_BASE_URL" in said
    assert "key" not in said


def test_a_checkpoint_of_another_key_is_refused_for_its_signature(
    operator: Operator, holder: Holder
) -> None:
    (operator.data / FILE_NAME).write_bytes(bytes(32))
    forget_origin(operator)
    refusal = operator.refused(*holder.arguments, BAROGRAPH_BASE_URL=BASE_URL)

    assert isinstance(refusal, CheckpointRefused)
    assert "the expected key did not sign" in str(refusal)


def test_proving_makes_no_key(operator: Operator, holder: Holder) -> None:
    (operator.data / FILE_NAME).unlink()
    forget_origin(operator)

    assert proved(operator, *holder.arguments[:2]) == (2, 3, None)
    refusal = operator.refused(*holder.arguments, BAROGRAPH_BASE_URL=BASE_URL)
    assert isinstance(refusal, ConfigurationError)
    assert "BAROGRAPH_HISTORY_KEY" in str(refusal)
    assert not (operator.data / FILE_NAME).exists()


LEGS = ("[" * 800 + "]" * 800, "NaN", r'"\ud800"', "1e400", "9" * 400)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[" * 100_000, b"\xff\xfe\xff", b"7", b"[]", b'{"kind": []}', b'{"kind": NaN}'),
        *(f'{{"leg": {leg}}}'.encode() for leg in LEGS),
    ],
    ids=count(),
)
def test_a_file_that_is_no_stance_is_one_line(
    operator: Operator, holder: Holder, content: bytes
) -> None:
    if content.startswith(b'{"leg"'):  # and is a stance otherwise
        content = holder.stance.read_bytes().strip()[:-1] + b"," + content[1:]
    holder.stance.write_bytes(content)

    assert isinstance(operator.refused(*holder.arguments[:2]), BarographError)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"hello\n", b"a\n1\nb\n\nc\n"], ids=count())
def test_a_kept_file_that_is_no_checkpoint_is_one_line(
    operator: Operator, holder: Holder, content: bytes
) -> None:
    holder.kept.write_bytes(content)

    assert isinstance(operator.refused(*holder.arguments), BarographError)


@pytest.mark.parametrize("wrong", ["z" * 64, "e" * 64])
def test_a_changed_digest_is_named_as_damage(
    operator: Operator, holder: Holder, wrong: str
) -> None:
    operator.tamper(f"UPDATE stance_versions SET history_digest = '{wrong}' WHERE sequence = 1")

    assert "barograph stances verify" in str(operator.refused(*holder.arguments[:2]))


def test_nothing_is_proved_by_another_record_than_the_published_one(
    operator: Operator, holder: Holder
) -> None:
    upgraded_database(operator.database)
    operator.publish()
    assert proved(operator, *holder.arguments[:2]) == (2, 3, None)

    operator.tamper("DELETE FROM stance_versions WHERE sequence = 3")
    refusal = operator.refused(*holder.arguments[:2])
    assert isinstance(refusal, RecordReplaced)

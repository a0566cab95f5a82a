"""`barograph stances`: what it shows, records and refuses, and with what it ends."""

import asyncio
import importlib
import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from click.testing import CliRunner, Result
from msgspec.structs import replace

from barograph.cli import cli
from barograph.errors import BarographError, ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.database import SQLiteDatabase, Transaction
from barograph.kit.timestamps import DAY
from barograph.stances.ledger import HeadMoved, Ledger
from barograph.stances.records import KINDS, LABELS, Event, Version
from barograph.stances.revising import CannotRevise
from support.stances import FUNDING, RATES, proposal


class Operator:
    """Who runs the command in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"

    @property
    def history(self) -> Path:
        return self.data / "history.sqlite3"

    def make_record(self) -> None:
        assert CliRunner().invoke(cli, ["db", "upgrade", "--data", str(self.data)]).exit_code == 0

    def run(self, *arguments: str, answers: Any = None) -> Result:
        everything = ["stances", *arguments, "--data", str(self.data)]
        return CliRunner().invoke(cli, everything, input=answers)

    def told(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str) -> BaseException:
        result = self.run(*arguments)
        assert isinstance(result.exception, BarographError), result.output
        return result.exception

    def record(self, number: int = 0, *, kind: str = FUNDING, lasts: int = DAY) -> Version:
        """Record as the collector does."""
        now = system_clock()
        given = replace(proposal(number, kind=kind), issued_at=now, expires_at=now + lasts)

        async def work() -> Version:
            database = SQLiteDatabase(self.history)
            try:
                return (await Ledger(database, system_clock).append(given)).version
            finally:
                await database.close()

        return asyncio.run(work())

    def events(self, kind: str = FUNDING) -> list[Event]:
        async def work() -> list[Event]:
            database = SQLiteDatabase(self.history)
            try:
                return await Ledger(database, system_clock).events(kind)
            finally:
                await database.close()

        return asyncio.run(work())

    def tamper(self, *statements: str) -> None:
        """Do to the record what its guards refuse, and put the guards back."""

        async def work(tx: Transaction) -> None:
            sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
            guards = await tx.fetch(sql)
            for name, _ in guards:
                await tx.script(f"DROP TRIGGER {name}")
            for statement in statements:
                await tx.script(statement)
            for _, guard in guards:
                await tx.script(guard)

        async def all_of_it() -> None:
            database = SQLiteDatabase(self.history)
            await database.write(work)
            await database.close()

        asyncio.run(all_of_it())


@pytest.fixture
def newcomer(tmp_path: Path) -> Operator:
    """Who has no record yet."""
    return Operator(tmp_path)


@pytest.fixture
def operator(newcomer: Operator) -> Operator:
    newcomer.make_record()
    return newcomer


REVISE = ("revise", FUNDING, "--decision", "cautious", "--why", "auction tomorrow")
WITHDRAW = ("withdraw", FUNDING, "--why", "a wrong file", "--yes")


def test_the_command_knows_all_kinds_and_labels() -> None:
    # The package has the command itself under the module's name.
    stances = importlib.import_module("barograph.cli.stances")

    assert (stances.KINDS, stances.LABELS) == (KINDS, LABELS)


@pytest.mark.parametrize(
    "arguments",
    [("list", RATES), ("show", RATES), REVISE, WITHDRAW, ("verify",)],
    ids=lambda a: a[0],
)
def test_a_folder_without_a_record_is_refused_and_does_not_get_one(
    newcomer: Operator, arguments: tuple[str, ...]
) -> None:
    refusal = newcomer.refused(*arguments)

    assert isinstance(refusal, ConfigurationError)
    assert "no record of stances" in str(refusal)
    assert not newcomer.data.exists()


@pytest.mark.parametrize("verb", ["list", "show"])
def test_a_wrong_kind_is_refused_with_the_list(operator: Operator, verb: str) -> None:
    result = operator.run(verb, "gold-stance")

    assert result.exit_code == 2
    assert all(kind in result.stderr for kind in KINDS)


def test_a_wrong_label_is_refused_with_the_list(operator: Operator) -> None:
    operator.record()
    result = operator.run("revise", FUNDING, "--decision", "bullish", "--why", "x")

    assert result.exit_code == 2
    assert all(label in result.stderr for label in LABELS)
    assert len(operator.told("list", FUNDING)) == 1


def test_an_empty_record_says_so(operator: Operator) -> None:
    assert operator.run("list", RATES).stdout == "no rates-desk is recorded yet\n"
    assert operator.told("list", RATES) == []
    assert "no such version" in str(operator.refused("show", RATES))
    assert "no funding-regime-stance" in str(operator.refused(*REVISE))
    assert "no funding-regime-stance" in str(operator.refused(*WITHDRAW))


def test_versions_are_listed_newest_first(operator: Operator) -> None:
    versions = [operator.record(number) for number in range(3)]
    lines = operator.run("list", FUNDING, "--last", "2").stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["3", "2"]
    assert "neutral (medium, rules)" in lines[0]
    assert [each["history_digest"] for each in operator.told("list", FUNDING)] == [
        each.history_digest for each in reversed(versions)
    ]


@pytest.mark.contract("stance.evidence-digests-distinct")
def test_a_version_is_shown_whole(operator: Operator) -> None:
    first, second = operator.record(0), operator.record(1)
    shown = operator.told("show", FUNDING)
    text = operator.run("show", FUNDING, "--sequence", "1").stdout

    assert shown["history_digest"] == second.history_digest
    assert shown["leg"]["evidence"]["digest"] == second.leg.evidence.digest
    assert shown["leg"]["evidence"]["digest"] != shown["history_digest"]
    assert first.history_digest in text
    assert "funding is where it mostly is" in text
    assert "fundingPct" in text
    assert "no such version" in str(operator.refused("show", FUNDING, "--sequence", "9"))


@pytest.mark.contract("stance.revision-keeps-leg")
def test_a_decision_is_the_next_revision_on_the_same_evidence(operator: Operator) -> None:
    before = operator.record()
    after = operator.told(*REVISE, "--by", "night desk")

    assert (after["leg_id"], after["revision"]) == (before.leg_id, 2)
    assert after["previous_digest"] == before.history_digest
    assert after["leg"]["evidence"]["digest"] == before.leg.evidence.digest
    assert after["leg"]["decision"] == {
        "label": "cautious",
        "confidence": "medium",
        "rationale": "auction tomorrow",
        "by": "night desk",
    }


def test_the_same_decision_again_is_recorded_once_and_says_so(operator: Operator) -> None:
    operator.record()
    first, second = operator.run(*REVISE).stdout, operator.run(*REVISE).stdout

    assert first.startswith("recorded  ")
    assert second.startswith("recorded already: ")
    assert len(operator.told("list", FUNDING)) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("revise", FUNDING, "--decision", "neutral", "--why", "  "),
        ("revise", FUNDING, "--decision", "neutral", "--why", "x", "--by", ""),
        ("withdraw", FUNDING, "--yes", "--why", " "),
        ("withdraw", FUNDING, "--yes", "--why", "x", "--by", " "),
    ],
)
def test_a_decision_without_a_reason_or_a_name_is_refused(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    operator.record()

    assert isinstance(operator.refused(*arguments), CannotRevise)
    assert len(operator.told("list", FUNDING)) == 1
    assert operator.events() == []


def test_a_version_that_has_expired_is_not_revised(operator: Operator) -> None:
    operator.record(lasts=-1)

    assert "expired" in str(operator.refused(*REVISE))


@pytest.mark.contract("events.evidence-digest")
def test_a_withdrawal_is_an_event_and_changes_no_version(operator: Operator) -> None:
    version = operator.record()
    told = operator.told(*WITHDRAW)

    assert (told["kind"], told["type"], told["version_sequence"]) == (FUNDING, "withdrawn", 1)
    assert version.history_digest not in told.values()
    assert operator.told("show", FUNDING)["history_digest"] == version.history_digest


def test_an_event_is_shown_whole_with_the_version_that_it_is_about(operator: Operator) -> None:
    operator.record(0)
    told = operator.told(*WITHDRAW, "--by", "night desk")
    operator.record(1)
    newest, withdrawn = operator.told("list", FUNDING)
    recorded = dict(told)
    digest = recorded.pop("event_digest")

    assert (newest["events"], withdrawn["events"]) == ([], [told])
    assert operator.told("show", FUNDING, "--sequence", "1") == withdrawn
    assert (told["why"], told["by"]) == ("a wrong file", "night desk")
    assert len(bytes.fromhex(told["salt"])) == 32
    assert told["salt"] != withdrawn["salt"]
    assert sha256(rfc8785.dumps(recorded)).hexdigest() == digest


def test_withdrawing_twice_is_one_event(operator: Operator) -> None:
    operator.record()
    first = operator.told(*WITHDRAW)
    second = operator.told("withdraw", FUNDING, "--why", "another reason", "--yes")

    assert first == second
    assert len(operator.events()) == 1
    assert operator.run(*WITHDRAW).stdout == "withdrawn: funding-regime-stance number 1\n"


def test_a_withdrawal_asks_first_and_names_what_it_is_about(operator: Operator) -> None:
    operator.record()
    result = operator.run("withdraw", FUNDING, "--why", "x", answers="n\n")

    assert result.exit_code == 1
    assert proposal().leg_id in result.stdout
    assert operator.events() == []
    assert operator.run("withdraw", FUNDING, "--why", "x", answers="y\n").exit_code == 0
    assert len(operator.events()) == 1


class Slowly(io.BytesIO):
    """Somebody who answers after something else has happened."""

    def __init__(self, answer: bytes, meanwhile: Callable[[], object]) -> None:
        super().__init__(answer)
        self._meanwhile = meanwhile

    def read1(self, *arguments: Any) -> bytes:
        self._meanwhile()
        return super().read1(*arguments)


@pytest.mark.outcome(
    "two operators decide about the same stance at once",
    "the second is told that another version was recorded, and nothing of theirs is",
)
def test_what_was_not_looked_at_is_not_withdrawn(operator: Operator) -> None:
    operator.record()
    answers = Slowly(b"y\n", lambda: operator.record(1))
    result = operator.run("withdraw", FUNDING, "--why", "x", answers=answers)

    assert isinstance(result.exception, HeadMoved), result.output
    assert "another version has been recorded since" in str(result.exception)
    assert operator.events() == []


def test_a_withdrawn_stance_is_opened_again_by_a_decision(operator: Operator) -> None:
    operator.record()
    operator.run(*WITHDRAW)
    assert operator.told(*REVISE)["revision"] == 2

    assert operator.told(*WITHDRAW)["version_sequence"] == 2
    assert len(operator.events()) == 2


def test_a_whole_record_is_verified_with_its_counts(operator: Operator) -> None:
    operator.record(0)
    operator.record(1)
    operator.record(0, kind=RATES)
    operator.run(*WITHDRAW)

    assert operator.told("verify") == {
        "ok": True,
        "kinds": {FUNDING: {"versions": 2, "events": 1}, RATES: {"versions": 1, "events": 0}},
    }
    assert operator.run("verify").stdout.splitlines() == [
        "funding-regime-stance: 2 versions, 1 events, all as recorded",
        "rates-desk: 1 versions, 0 events, all as recorded",
    ]


def test_an_empty_record_is_whole(operator: Operator) -> None:
    assert operator.told("verify") == {"ok": True, "kinds": {}}
    assert operator.run("verify").stdout == "nothing is recorded yet\n"


def test_a_changed_record_is_named_and_ends_with_one(operator: Operator) -> None:
    for number in range(3):
        operator.record(number)
    operator.tamper(
        "UPDATE stance_versions SET document = replace(document, 'neutral', 'cautious') "
        "WHERE sequence = 2"
    )
    plain, told = operator.run("verify"), operator.run("verify", "--json")

    assert (plain.exit_code, told.exit_code) == (1, 1)
    assert plain.stdout.startswith("broken: funding-regime-stance number 2: ")
    found = json.loads(told.stdout)
    assert (found["ok"], found["kind"], found["sequence"]) == (False, FUNDING, 2)

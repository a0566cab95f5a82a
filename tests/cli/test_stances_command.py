"""`barograph stances`: what it shows, records and refuses, and with what it ends."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from barograph.errors import ConfigurationError
from barograph.history.ledger import HeadMoved
from barograph.history.records import KINDS, LABELS
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, iso_timestamp
from support.operator import REVISE, WITHDRAW, Operator, on_database
from support.stances import FUNDING, RATES, proposal


def test_a_wrong_kind_or_label_is_refused_with_the_list(operator: Operator) -> None:
    operator.record()
    for command, known in (
        (("list", "gold-stance"), KINDS),
        (("show", "gold-stance"), KINDS),
        (("revise", FUNDING, "--decision", "bullish", "--why", "x"), LABELS),
    ):
        result = operator.run(*command)
        assert result.exit_code == 2
        assert all(word in result.stderr for word in known)
    assert len(operator.read_json("list", FUNDING)) == 1


def test_an_empty_record_says_so(operator: Operator) -> None:
    assert operator.run("list", RATES).stdout == "no rates-desk is recorded yet\n"
    assert operator.read_json("list", RATES) == []
    assert "no such version" in str(operator.refused("show", RATES))
    assert "no funding-regime-stance" in str(operator.refused(*REVISE))
    assert "no funding-regime-stance" in str(operator.refused(*WITHDRAW))


@pytest.mark.contract("stance.revision-keeps-leg")
def test_a_decision_is_the_next_revision_on_the_same_evidence(operator: Operator) -> None:
    before = operator.record()
    after = operator.read_json(*REVISE, "--by", "night desk")

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
    assert len(operator.read_json("list", FUNDING)) == 2


UNWRITABLE = ["", "  ", "two\nlines", "a \x1b[2J screen", "half \udcff a letter"]
RULES = ["rule", "Rule", " RULE ", "\uff52\uff55\uff4c\uff45"]
ONE_LINE = "must be one line of 1 to {} printable characters"


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        *(("--why", text, ONE_LINE.format(500)) for text in (*UNWRITABLE, "x" * 501)),
        *(("--by", text, ONE_LINE.format(100)) for text in (*UNWRITABLE, "x" * 101)),
        *(("--by", text, "only rules sign as") for text in RULES),
    ],
)
@pytest.mark.parametrize(
    "verb", [("revise", FUNDING, "--decision", "neutral"), ("withdraw", FUNDING, "--yes")]
)
def test_a_reason_or_a_name_that_is_not_one_line_or_a_rules_is_a_usage_error(
    operator: Operator, verb: tuple[str, ...], option: str, text: str, said: str
) -> None:
    operator.record()
    given = {"--why": "x", "--by": "night desk", option: text}
    result = operator.run(*verb, *(part for pair in given.items() for part in pair))

    assert result.exit_code == 2
    assert said in result.stderr
    assert len(operator.read_json("list", FUNDING)) == 1
    assert operator.events() == []


def test_the_longest_reason_and_name_are_recorded(operator: Operator) -> None:
    operator.record()
    why, by = "é" * 500, "ß" * 100
    decided = operator.read_json(
        "revise", FUNDING, "--decision", "neutral", "--why", f" {why} ", "--by", f"{by}\n"
    )

    assert decided["leg"]["decision"]["rationale"] == why
    assert decided["leg"]["decision"]["by"] == by


def test_a_version_that_has_expired_is_not_revised(operator: Operator) -> None:
    operator.record(lasts=-1)

    assert "expired" in str(operator.refused(*REVISE))


@pytest.mark.contract("events.evidence-digest")
def test_a_withdrawal_is_an_event_and_changes_no_version(operator: Operator) -> None:
    version = operator.record()
    told = operator.read_json(*WITHDRAW)

    assert (told["kind"], told["type"], told["version_sequence"]) == (FUNDING, "withdrawn", 1)
    assert version.history_digest not in told.values()
    assert operator.read_json("show", FUNDING)["history_digest"] == version.history_digest


def test_a_second_withdrawal_tells_of_the_first_and_asks_nothing(operator: Operator) -> None:
    operator.record()
    first = operator.run(*WITHDRAW, "--by", "night desk")
    again = operator.run("withdraw", FUNDING, "--why", "another reason")
    (event,) = operator.events()

    assert first.stdout == "withdrawn: funding-regime-stance number 1\n"
    assert (again.exit_code, again.stderr) == (0, "")
    assert again.stdout == (
        "funding-regime-stance number 1 was withdrawn already, "
        f"{iso_timestamp(event.at)} by night desk: a wrong file\n"
    )
    told = operator.read_json("withdraw", FUNDING, "--why", "another reason", "--yes")
    assert (told["why"], told["by"]) == ("a wrong file", "night desk")


def test_a_withdrawal_asks_first_and_names_what_it_is_about(operator: Operator) -> None:
    operator.record()
    result = operator.run("withdraw", FUNDING, "--why", "x", "--json", answers="n\n")

    assert result.exit_code == 1
    assert proposal().leg_id in result.stderr
    assert result.stderr.endswith("nothing was withdrawn\n")
    assert result.stdout == ""
    assert operator.events() == []
    assert operator.run("withdraw", FUNDING, "--why", "x", answers="y\n").exit_code == 0
    assert len(operator.events()) == 1


@pytest.mark.parametrize("arguments", [REVISE, WITHDRAW, (*REVISE, "--json")])
def test_an_operator_is_told_when_their_words_become_public(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    version = operator.record()
    assert operator.run("show", FUNDING).stderr == ""
    operator.announce(7, version.issued_at + DAY)  # so this version stays private
    assert operator.run(*arguments).stderr == ""
    version = operator.record(1)
    operator.announce(7, version.issued_at)

    warned = operator.run(*arguments)
    issued_at = operator.on_ledger(lambda each: each.newest_versions(FUNDING, 1))[0].issued_at
    public_at = iso_timestamp(issued_at + 7 * DAY)
    assert warned.exit_code == 0
    assert warned.stderr == (
        f"warning: your reason and name become public at {public_at}, "
        "7 days after the version is issued\n"
    )


class Slowly(io.BytesIO):
    """Somebody who answers after something else has happened."""

    def __init__(self, answer: bytes, meanwhile: Callable[[], object]) -> None:
        super().__init__(answer)
        self._meanwhile = meanwhile

    def read1(self, *arguments: Any) -> bytes:
        self._meanwhile()
        return super().read1(*arguments)


@pytest.mark.outcome(
    "Two operators revise or withdraw the same stance at once",
    "The second records nothing and learns what happened.",
)
def test_stance_that_changed_before_confirmation_is_not_withdrawn(operator: Operator) -> None:
    operator.record()
    answers = Slowly(b"y\n", lambda: operator.record(1))
    result = operator.run("withdraw", FUNDING, "--why", "x", answers=answers)

    assert isinstance(result.exception, HeadMoved), result.output
    assert "another version was recorded meanwhile" in str(result.exception)
    assert operator.events() == []


def test_a_withdrawn_stance_is_opened_again_by_a_decision(operator: Operator) -> None:
    operator.record()
    operator.run(*WITHDRAW)
    assert operator.read_json(*REVISE)["revision"] == 2

    assert operator.read_json(*WITHDRAW)["version_sequence"] == 2
    assert len(operator.events()) == 2


@pytest.mark.outcome(
    "Two operators revise or withdraw the same stance at once",
    "The second records nothing and learns what happened.",
)
def test_second_of_two_withdrawals_reports_who_made_the_first(operator: Operator) -> None:
    operator.record()
    answers = Slowly(b"y\n", lambda: operator.run(*WITHDRAW, "--by", "night desk"))
    result = operator.run("withdraw", FUNDING, "--why", "x", answers=answers)

    assert result.exit_code == 0
    assert "was withdrawn already" in result.stdout
    assert "by night desk: a wrong file" in result.stdout
    assert len(operator.events()) == 1


def test_what_is_not_guarded_is_read_but_not_added_to(operator: Operator) -> None:
    operator.record()
    on_database(operator.history, lambda database: database.write(drop_a_guard))

    assert len(operator.read_json("list", FUNDING)) == 1
    for change in (REVISE, WITHDRAW):
        refusal = operator.refused(*change)
        assert isinstance(refusal, ConfigurationError)
        assert "stance_versions_never_go" in str(refusal)
    assert len(operator.read_json("list", FUNDING)) == 1


async def drop_a_guard(tx: Transaction) -> None:
    await tx.script("DROP TRIGGER stance_versions_never_go")


def test_a_number_beyond_all_numbers_is_a_usage_error(operator: Operator) -> None:
    operator.record()

    assert operator.run("show", FUNDING, "--sequence", str(2**63)).exit_code == 2
    assert "no such version" in str(operator.refused("show", FUNDING, "--sequence", str(2**63 - 1)))

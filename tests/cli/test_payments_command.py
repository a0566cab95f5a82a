"""`barograph payments`, as an operator uses it."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import HOUR
from barograph.payments.journal import Journal, WrongTransition
from barograph.payments.records import Payment, TrailStep
from support.clock import HandClock
from support.operator import make_databases, on_database
from support.payments import FEED, PAYER, proof

T = TypeVar("T")


TRANSACTION = "0x" + "Ab" * 32
WHY = ("--why", "seen on the chain")


class Folder:
    """A data folder whose journal is written some time before an operator looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_databases(path)
        self.clock = HandClock(system_clock() - HOUR)

    def use(self, work: Callable[[Journal], Coroutine[Any, Any, T]]) -> T:
        file = self.path / "barograph.sqlite3"
        return on_database(file, lambda database: work(Journal(database, self.clock)))

    def pay(self, state: str, door: str = "/api/x402/rates-desk", number: int = 1) -> str:
        """A payment of Feed that came as far as a state; its id."""
        now = self.clock() // 1000

        async def work(journal: Journal) -> str:
            claimed = await journal.claim(proof(number, offer=FEED, now_seconds=now), door)
            if state != "claimed":
                await journal.mark_settling(claimed.id)
            if state == "unknown":
                await journal.mark_unknown(claimed.id, "no answer")
            if state == "failed":
                await journal.mark_failed(claimed.id, "insufficient_funds")
            return claimed.id

        return self.use(work)

    def get(self, payment_id: str) -> Payment:
        return self.use(lambda journal: journal.get(payment_id))

    def last_step(self, payment_id: str) -> TrailStep:
        return self.use(lambda journal: journal.trail(payment_id))[-1]

    def feed(self) -> list[dict[str, Any]]:
        arguments = ["entitlements", "list", "--wallet", PAYER, "--json", "--data", str(self.path)]
        found: list[dict[str, Any]] = json.loads(CliRunner().invoke(cli, arguments).stdout)
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def journal(folder: Folder) -> Path:
    """A folder whose journal has one payment that is unknown and one that was settled."""
    folder.clock.now += HOUR
    folder.pay("unknown")
    folder.clock.now += 1_000
    settled = folder.pay("settling", number=2)
    folder.use(lambda journal: journal.mark_settled(settled, "0x" + "ab" * 32))
    return folder.path


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["payments", *arguments, "--data", str(folder)])


def test_the_list_names_state_door_and_payer_and_no_signature(journal: Path) -> None:
    listed = json.loads(run(journal, "list", "--json").stdout)
    assert {each["state"] for each in listed} == {"unknown", "settled"}
    assert {each["payer"] for each in listed} == {PAYER}
    assert not any("signature" in name for each in listed for name in each)
    plain = run(journal, "list").stdout.splitlines()
    assert [line.split()[0] for line in plain] == [each["id"] for each in listed]


def test_the_list_can_be_narrowed(journal: Path) -> None:
    (only,) = json.loads(run(journal, "list", "--state", "unknown", "--json").stdout)
    assert only["reason"] == "no answer"
    assert run(journal, "list", "--state", "failed").stdout == "no payment matches\n"
    assert len(json.loads(run(journal, "list", "--wallet", PAYER, "--json").stdout)) == 2


def test_one_payment_is_shown_with_its_steps(journal: Path) -> None:
    (settled,) = json.loads(run(journal, "list", "--state", "settled", "--json").stdout)
    shown = json.loads(run(journal, "show", settled["id"], "--json").stdout)
    assert [step["step"] for step in shown["trail"]] == ["claimed", "settling", "settled"]
    assert settled["transaction"] in run(journal, "show", settled["id"]).stdout


def test_without_a_chain_what_is_unknown_waits(journal: Path) -> None:
    done = json.loads(run(journal, "reconcile", "--json").stdout)
    assert done == {"released": 0, "lost": 0, "settled": 0, "failed": 0, "waiting": 1, "busy": 0}
    assert "BAROGRAPH_X402_CHAIN_URL" in run(journal, "reconcile").stdout


def test_a_payment_that_does_not_exist_is_said_so(journal: Path) -> None:
    result = run(journal, "show", "pay_nothing")
    assert result.exit_code == 1
    assert "no such payment" in str(result.exception)


@pytest.mark.outcome(
    "The result of a payment is unknown and no chain is configured",
    "It stays `unknown`, and is not charged again, until the operator resolves it. The trail "
    "names the operator.",
)
@pytest.mark.parametrize("state", ["unknown", "settling"])
def test_payment_resolved_by_the_operator_is_granted(folder: Folder, state: str) -> None:
    paid = folder.pay(state, door="/api/x402/feed")
    answer = run(folder.path, "settle", paid, "--transaction", TRANSACTION, *WHY, "--yes", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["state"] == "settled"
    (granted,) = folder.feed()
    found = folder.get(paid)
    assert (found.transaction, found.entitlement_id) == (TRANSACTION.lower(), granted["id"])
    step = folder.last_step(paid)
    detail = f"{TRANSACTION.lower()} by operator: seen on the chain"
    assert (step.step, step.detail) == ("settled", detail)

    again = run(folder.path, "settle", paid, "--transaction", TRANSACTION, *WHY, "--yes")
    assert isinstance(again.exception, WrongTransition)
    assert folder.feed() == [granted]


def test_a_stance_that_an_operator_settles_grants_nothing(folder: Folder) -> None:
    folder.clock.now += HOUR  # while the proof can still move the money
    paid = folder.pay("unknown")
    answer = run(folder.path, "settle", paid, "--transaction", TRANSACTION, *WHY, "--yes")
    assert answer.exit_code == 0, answer.output
    assert folder.get(paid).state == "settled"
    assert folder.feed() == []


@pytest.mark.parametrize("state", ["unknown", "settling"])
def test_an_operator_fails_what_never_came(folder: Folder, state: str) -> None:
    paid = folder.pay(state)
    answer = run(folder.path, "fail", paid, "--why", "expired", "--by", "a colleague", "--yes")
    assert answer.exit_code == 0, answer.output
    assert folder.get(paid).state == "failed"
    assert folder.last_step(paid).detail == "by a colleague: expired"


SETTLE, FAIL = ("settle", "--transaction", TRANSACTION), ("fail",)


@pytest.mark.parametrize(
    ("state", "age", "commands", "said"),
    [
        ("claimed", HOUR, (SETTLE, FAIL), ""),
        ("failed", HOUR, (SETTLE, FAIL), ""),
        ("settling", 0, (SETTLE, FAIL), "try again after"),
        ("unknown", 0, (FAIL,), "can still move the money"),
    ],
)
def test_payment_that_has_an_end_or_may_get_one_is_not_decided_by_hand(
    folder: Folder, state: str, age: int, commands: tuple[tuple[str, ...], ...], said: str
) -> None:
    folder.clock.now += HOUR - age
    paid = folder.pay(state)
    for command in commands:
        answer = run(folder.path, command[0], paid, *command[1:], *WHY, "--yes")
        assert isinstance(answer.exception, WrongTransition)
        assert said in str(answer.exception)
        assert folder.get(paid).state == state


@pytest.mark.parametrize("command", [SETTLE, FAIL])
def test_without_yes_nothing_is_decided_unasked(folder: Folder, command: tuple[str, ...]) -> None:
    paid = folder.pay("unknown")
    answer = run(folder.path, command[0], paid, *command[1:], *WHY)
    assert answer.exit_code == 1
    assert paid in answer.output
    assert folder.get(paid).state == "unknown"


@pytest.mark.parametrize("value", ["", "0x12", "ab" * 32, TRANSACTION + "0"])
def test_what_is_no_transaction_settles_nothing(folder: Folder, value: str) -> None:
    paid = folder.pay("unknown")
    answer = run(folder.path, "settle", paid, "--transaction", value, *WHY, "--yes")
    assert answer.exit_code == 2
    assert folder.get(paid).state == "unknown"

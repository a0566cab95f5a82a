"""`barograph payments`, as an operator uses it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.kit.clock import system_clock
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import HOUR
from barograph.payments.journal import Journal, WrongTransition
from barograph.payments.records import Payment, TrailStep
from support.clock import HandClock
from support.payments import FEED, PAYER, proof

T = TypeVar("T")


TRANSACTION = "0x" + "Ab" * 32
WHY = ("--why", "seen on the chain")


class Folder:
    """A data folder whose journal is written some time before an operator looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock(system_clock() - HOUR)

    def use(self, work: Callable[[Journal], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            database = SQLiteDatabase(self.path / "barograph.sqlite3")
            await upgrade(database, packaged_migrations(), system_clock)
            try:
                return await work(Journal(database, self.clock))
            finally:
                await database.close()

        return asyncio.run(run())

    def pay(self, state: str, door: str = "/api/x402/rates-desk") -> str:
        """A payment of Feed that came as far as a state; its id."""
        now = self.clock() // 1000

        async def work(journal: Journal) -> str:
            claimed = await journal.claim(proof(offer=FEED, now_seconds=now), door)
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
def journal(tmp_path: Path) -> Path:
    """A folder whose journal has one payment that is unknown and one that was settled."""
    database = SQLiteDatabase(tmp_path / "barograph.sqlite3")

    async def fill() -> None:
        await upgrade(database, packaged_migrations(), system_clock)
        found = Journal(database, system_clock)
        for number in (1, 2):
            claimed = await found.claim(proof(number), "/api/x402/rates-desk")
            await found.mark_settling(claimed.id)
            if number == 1:
                await found.mark_unknown(claimed.id, "no answer")
            else:
                await found.mark_settled(claimed.id, "0x" + "ab" * 32)
        await database.close()

    asyncio.run(fill())
    return tmp_path


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
    paid = folder.pay("unknown")
    run(folder.path, "settle", paid, "--transaction", TRANSACTION, *WHY, "--yes")
    assert folder.get(paid).state == "settled"
    assert folder.feed() == []


@pytest.mark.parametrize("state", ["unknown", "settling"])
def test_an_operator_fails_what_never_came(folder: Folder, state: str) -> None:
    paid = folder.pay(state)
    answer = run(folder.path, "fail", paid, "--why", "expired", "--by", "a colleague", "--yes")
    assert answer.exit_code == 0, answer.output
    assert folder.get(paid).state == "failed"
    assert folder.last_step(paid).detail == "by a colleague: expired"


SETTLE = ("settle", "--transaction", TRANSACTION)


@pytest.mark.parametrize("command", [SETTLE, ("fail",)])
@pytest.mark.parametrize("state", ["claimed", "failed"])
def test_only_what_was_asked_to_move_and_has_no_end_is_decided_by_hand(
    folder: Folder, command: tuple[str, ...], state: str
) -> None:
    paid = folder.pay(state)
    answer = run(folder.path, command[0], paid, *command[1:], *WHY, "--yes")
    assert isinstance(answer.exception, WrongTransition)
    assert folder.get(paid).state == state


@pytest.mark.parametrize("command", [SETTLE, ("fail",)])
def test_what_is_being_settled_right_now_is_left_alone(
    folder: Folder, command: tuple[str, ...]
) -> None:
    folder.clock.now += HOUR
    paid = folder.pay("settling")
    answer = run(folder.path, command[0], paid, *command[1:], *WHY, "--yes")
    assert isinstance(answer.exception, WrongTransition)
    assert "try again after" in str(answer.exception)
    assert folder.get(paid).state == "settling"


def test_what_can_still_be_paid_is_not_failed(folder: Folder) -> None:
    folder.clock.now += HOUR
    paid = folder.pay("unknown")
    refused = run(folder.path, "fail", paid, *WHY, "--yes")
    assert isinstance(refused.exception, WrongTransition)
    assert "can still move the money" in str(refused.exception)
    assert folder.get(paid).state == "unknown"
    answer = run(folder.path, "settle", paid, "--transaction", TRANSACTION, *WHY, "--yes")
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("command", [SETTLE, ("fail",)])
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

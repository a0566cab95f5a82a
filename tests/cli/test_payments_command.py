"""`barograph payments`, as an operator uses it."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.kit.clock import system_clock
from barograph.kit.database import SQLiteDatabase
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.payments.journal import Journal
from support.payments import PAYER, proof


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A folder whose journal has one payment that is unknown and one that was settled."""
    database = SQLiteDatabase(tmp_path / "barograph.sqlite3")

    async def fill() -> None:
        await upgrade(database, packaged_migrations(), system_clock)
        found = Journal(database, system_clock)
        for number in (1, 2):
            claimed = await found.claim(proof(number), "/api/x402/rates-desk")
            await found.settling(claimed.id)
            if number == 1:
                await found.unknown(claimed.id, "no answer")
            else:
                await found.settled(claimed.id, "0x" + "ab" * 32)
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
    assert run(journal, "list", "--state", "failed").stdout == "no payment fits\n"
    assert len(json.loads(run(journal, "list", "--wallet", PAYER, "--json").stdout)) == 2


def test_one_payment_is_shown_with_its_steps(journal: Path) -> None:
    (settled,) = json.loads(run(journal, "list", "--state", "settled", "--json").stdout)
    shown = json.loads(run(journal, "show", settled["id"], "--json").stdout)
    assert [step["step"] for step in shown["trail"]] == ["claimed", "settling", "settled"]
    assert settled["transaction"] in run(journal, "show", settled["id"]).stdout


def test_without_a_chain_what_is_unknown_waits(journal: Path) -> None:
    done = json.loads(run(journal, "reconcile", "--json").stdout)
    assert done == {"released": 0, "lost": 0, "settled": 0, "failed": 0, "waiting": 1}
    assert "BAROGRAPH_X402_CHAIN_URL" in run(journal, "reconcile").stdout


def test_a_payment_that_does_not_exist_is_said_so(journal: Path) -> None:
    result = run(journal, "show", "pay_nothing")
    assert result.exit_code == 1
    assert "no such payment" in str(result.exception)

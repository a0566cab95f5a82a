"""`barograph keys`, and the demo's captured mail."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barograph.access.keys import ApiKeys
from barograph.access.pepper import load_pepper
from barograph.cli.db import db
from barograph.cli.keys import keys, print_demo_mail
from barograph.demo.mailbox import FILE_NAME
from barograph.errors import BarographError, ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.database import SQLiteDatabase
from barograph.settings import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert CliRunner().invoke(db, ["upgrade", "--data", str(tmp_path)]).exit_code == 0
    return tmp_path


def run(folder: Path, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--data", str(folder)], input=given)


def create(folder: Path, email: str = "name@example.com") -> dict[str, Any]:
    result = run(folder, "create", "--email", email, "--json")
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.stdout)
    return made


def verify(folder: Path, key: str) -> str | None:
    settings = Settings(data=folder)

    async def work() -> str | None:
        database = SQLiteDatabase(settings.database_path)
        try:
            return await ApiKeys(database, load_pepper(settings), system_clock).verify(key)
        finally:
            await database.close()

    return asyncio.run(work())


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_help_of_each_command_has_an_example(command: str) -> None:
    result = CliRunner().invoke(keys, [command, "--help"])
    assert result.exit_code == 0
    assert f"barograph keys {command}" in result.stdout


def test_a_created_key_works_and_says_what_it_allows(folder: Path) -> None:
    made = create(folder, "Name@Example.com")

    assert list(made) == ["key", "id", "email", "requests_per_hour"]
    assert (made["email"], made["requests_per_hour"]) == ("Name@example.com", 1_000)
    assert verify(folder, made["key"]) == made["id"]


def test_only_the_key_goes_to_the_standard_output(folder: Path) -> None:
    result = run(folder, "create", "--email", "name@example.com")
    assert verify(folder, result.stdout.removesuffix("\n")) is not None
    assert "X-API-Key" in result.stderr


@pytest.mark.parametrize("email", ["nonsense", "a@b.example\r\nBcc: c@d.example", ""])
def test_what_is_no_address_is_a_wrong_command_line(folder: Path, email: str) -> None:
    result = run(folder, "create", "--email", email)
    assert result.exit_code == 2
    assert "email must be one plain address" in result.stderr


def test_keys_are_listed_without_their_secrets(folder: Path) -> None:
    assert run(folder, "list").stdout == "no keys\n"
    assert json.loads(run(folder, "list", "--json").stdout) == []
    old, new = create(folder), create(folder, "NAME@example.com")

    plain = run(folder, "list").stdout
    listed = {each["id"]: each for each in json.loads(run(folder, "list", "--json").stdout)}
    assert listed.keys() == {old["id"], new["id"]}
    assert listed[old["id"]]["revoked_at"] is not None
    assert listed[new["id"]] | {"created_at": ""} == {
        "id": new["id"],
        "email": "NAME@example.com",
        "created_at": "",
        "revoked_at": None,
    }
    assert [("revoked" in line, "works" in line) for line in sorted(plain.splitlines())] == [
        (listed[key]["revoked_at"] is not None, listed[key]["revoked_at"] is None)
        for key in sorted(listed)
    ]
    for made in (old, new):
        assert made["key"].rpartition("_")[2] not in plain + str(listed)


def test_a_revoked_key_stops_working(folder: Path) -> None:
    made = create(folder)
    result = run(folder, "revoke", made["id"], "--yes")
    assert (result.exit_code, result.stdout) == (0, f"revoked {made['id']}\n")
    assert verify(folder, made["key"]) is None


def test_revoking_asks_first(folder: Path) -> None:
    made = create(folder)
    assert run(folder, "revoke", made["id"], given="n\n").exit_code == 1
    assert verify(folder, made["key"]) == made["id"]
    assert run(folder, "revoke", made["id"], given="y\n").exit_code == 0
    assert verify(folder, made["key"]) is None


def test_a_key_that_does_not_work_cannot_be_revoked(folder: Path) -> None:
    result = run(folder, "revoke", "0123456789abcdef", "--yes")
    assert isinstance(result.exception, BarographError)
    assert "`barograph keys list`" in str(result.exception)


@pytest.mark.parametrize("command", [["create", "--email", "a@b.example"], ["list"]])
def test_a_folder_without_a_database_is_not_made_into_one(
    tmp_path: Path, command: list[str]
) -> None:
    result = run(tmp_path, *command)
    assert isinstance(result.exception, ConfigurationError)
    assert f"barograph db upgrade --data {tmp_path}" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_captured_mail_is_printed_plainly_or_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_demo_mail(tmp_path, as_json=False)
    print_demo_mail(tmp_path, as_json=True)
    assert capsys.readouterr().out == "no mail yet\n[]\n"
    mail = {
        "from": "barograph@demo.example",
        "to": ["name@example.com"],
        "subject": "Your key",
        "date": "Fri, 06 Nov 2026 21:20:00 +0000",
        "text": "Open\nhttps://x.example/keys/y\n",
        "links": ["https://x.example/keys/y"],
    }
    (tmp_path / FILE_NAME).write_text(json.dumps(mail) + "\n")

    print_demo_mail(tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == [mail]
    print_demo_mail(tmp_path, as_json=False)
    assert capsys.readouterr().out == (
        "from: barograph@demo.example\nto: name@example.com\n"
        "date: Fri, 06 Nov 2026 21:20:00 +0000\nsubject: Your key\n\n"
        "Open\nhttps://x.example/keys/y\n\n"
    )

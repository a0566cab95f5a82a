"""`barograph keys`: made, listed, revoked and forgotten."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from barograph.alerts.rules import Rule
from barograph.alerts.store import add_alert
from barograph.cli.keys import keys
from barograph.errors import BarographError
from barograph.keys.api_keys import ApiKeys, load_pepper
from barograph.keys.email_address import parse_address
from barograph.keys.registration import Registrations
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.settings import Settings
from support.operator import on_database


def run(folder: Path, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--data", str(folder)], input=given)


def create(folder: Path, email: str = "name@example.com") -> dict[str, Any]:
    result = run(folder, "create", "--email", email, "--json")
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.stdout)
    return made


def verify(folder: Path, key: str) -> str | None:
    settings = Settings(data=folder)
    return on_database(
        settings.database_path,
        lambda database: ApiKeys(database, load_pepper(settings), system_clock).verify(key),
    )


def test_a_created_key_works_and_says_what_it_allows(folder: Path) -> None:
    made = create(folder, "Name@Example.com")

    assert list(made) == ["key", "id", "email", "requests_per_hour"]
    assert (made["email"], made["requests_per_hour"]) == ("Name@example.com", 1_000)
    assert verify(folder, made["key"]) == "name@example.com"
    plain = run(folder, "create", "--email", "name@example.com")
    assert verify(folder, plain.stdout.removesuffix("\n")) is not None
    assert "X-API-Key" in plain.stderr


@pytest.mark.parametrize("email", ["nonsense", "a@b.example\r\nBcc: c@d.example", ""])
def test_what_is_no_address_is_a_wrong_command_line(folder: Path, email: str) -> None:
    for command in (["create"], ["forget", "--yes"]):
        result = run(folder, *command, "--email", email)
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


def test_revoking_asks_first_and_the_key_stops_working(folder: Path) -> None:
    made = create(folder)
    assert run(folder, "revoke", made["id"], given="n\n").exit_code == 1
    assert verify(folder, made["key"]) == "name@example.com"
    assert run(folder, "revoke", made["id"], given="y\n").exit_code == 0
    assert verify(folder, made["key"]) is None
    result = run(folder, "revoke", create(folder)["id"], "--yes")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "revoked")


def test_a_key_that_does_not_work_cannot_be_revoked(folder: Path) -> None:
    result = run(folder, "revoke", "0123456789abcdef", "--yes")
    assert isinstance(result.exception, BarographError)
    assert "`barograph keys list`" in str(result.exception)


def ask_for_a_link(folder: Path, *emails: str) -> None:
    settings = Settings(data=folder)

    async def request(database: Database) -> None:
        api_keys = ApiKeys(database, load_pepper(settings), system_clock)
        address = {"base_url": "https://x.example"}
        registrations = Registrations(database, api_keys, **address, clock=system_clock)
        for email in emails:
            await registrations.request(parse_address(email), "203.0.113.7")

    on_database(settings.database_path, request)


async def have_an_alert(database: Database) -> None:
    rule = Rule("brief", key="daily-wrap")
    await database.write(lambda tx: add_alert(tx, "name@example.com", rule, ["mail"], 1))


def traces(folder: Path, name: str) -> list[str]:
    """Where in the database a name is found."""
    connection = apsw.Connection(str(Settings(data=folder).database_path))
    tables = {
        "api_keys": "email",
        "registrations": "email",
        "outbox": "recipient",
        "alerts": "mailbox",
    }
    found = [
        table
        for table, column in tables.items()
        for (email,) in connection.execute(f"SELECT {column} FROM {table}").fetchall()
        if str(email).lower().startswith(name)
    ]
    connection.close()
    return found


def test_a_forgotten_mailbox_leaves_no_row_and_its_neighbours_stay(folder: Path) -> None:
    emails = ("Name+x@example.com", "name@example.com", "names@example.com")
    ask_for_a_link(folder, *emails)
    old, new, other = (create(folder, email) for email in emails)
    assert traces(folder, "name") == ["api_keys"] * 3 + ["registrations"] * 3 + ["outbox"] * 3
    on_database(Settings(data=folder).database_path, have_an_alert)

    result = run(folder, "forget", "--email", "NAME@Example.com", "--yes")

    assert (result.exit_code, result.stdout) == (
        0,
        "deleted: keys 2, links 2, queued e-mails 2, webhooks 0, alerts 1\n",
    )
    assert traces(folder, "name") == ["api_keys", "registrations", "outbox"]
    assert traces(folder, "names") == ["api_keys", "registrations", "outbox"]
    works = [verify(folder, made["key"]) is not None for made in (old, new, other)]
    assert works == [False, False, True]


def test_forgetting_asks_first(folder: Path) -> None:
    made = create(folder)
    declined = run(folder, "forget", "--email", "name+x@example.com", given="n\n")
    assert declined.exit_code == 1
    assert "Forget name@example.com?" in declined.output
    assert verify(folder, made["key"]) == "name@example.com"
    assert run(folder, "forget", "--email", "name@example.com", given="y\n").exit_code == 0
    assert traces(folder, "name") == []

"""`barograph entitlements`: granted, extended, listed, shown and revoked."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.entitlements.store import CannotGrant, UnknownEntitlement

USER = ("--user", "8c5e0f6a-user")
ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
WHY = ("--why", "paid by card")


def run(folder: Path, *arguments: str, given: str | None = None) -> Result:
    command = ["entitlements", *arguments, "--data", str(folder)]
    return CliRunner().invoke(cli, command, input=given)


def answer(folder: Path, *arguments: str) -> Any:
    result = run(folder, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def grant(folder: Path, *arguments: str) -> dict[str, Any]:
    made: dict[str, Any] = answer(folder, "grant", *(arguments or USER), "--tier", "feed", *WHY)
    return made


def days(entitlement: dict[str, Any]) -> int:
    first, last = (datetime.fromisoformat(entitlement[name]) for name in ("starts_at", "ends_at"))
    assert (last - first).seconds == 0
    return (last - first).days


@pytest.mark.contract("tiers.billing-period")
def test_a_grant_is_a_period_of_thirty_days_from_now(folder: Path) -> None:
    made = grant(folder)

    assert list(made) == [
        *("action", "id", "tier", "holder_kind", "holder", "state"),
        *("starts_at", "ends_at", "source", "granted_at", "revoked_at"),
    ]
    assert (made["action"], made["state"], made["tier"]) == ("granted", "active", "feed")
    assert (made["holder_kind"], made["holder"]) == ("user", USER[1])
    assert made["starts_at"] == made["granted_at"]
    assert (days(made), made["source"], made["revoked_at"]) == (30, "operator", None)


def test_days_are_added_to_what_runs(folder: Path) -> None:
    first = grant(folder, "--wallet", ADDRESS)
    grant(folder, "--wallet", ADDRESS.lower(), "--days", "60")
    again = grant(folder, "--wallet", f"0x{ADDRESS[2:].upper()}")

    assert (again["action"], again["id"], days(again)) == ("extended", first["id"], 120)
    assert first["holder"] == ADDRESS.lower()
    assert len(answer(folder, "list")) == 1


def test_dates_are_granted_exactly_beside_what_runs(folder: Path) -> None:
    running = grant(folder)
    span = ("--from", "9000-01-01", "--until", "9000-03-01T12:00:00Z")
    planned = grant(folder, *USER, *span)
    short = grant(folder, *USER, "--from", "9001-01-01", "--days", "7")
    until = grant(folder, *USER, "--until", "9000-01-01")

    assert (planned["action"], planned["state"]) == ("granted", "planned")
    assert planned["starts_at"] == "9000-01-01T00:00:00.000Z"
    assert planned["ends_at"] == "9000-03-01T12:00:00.000Z"
    assert short["ends_at"] == "9001-01-08T00:00:00.000Z"
    assert (until["state"], until["ends_at"]) == ("active", "9000-01-01T00:00:00.000Z")
    assert len({each["id"] for each in (running, planned, short, until)}) == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give --user SUB or --wallet"),
        ([*USER, "--wallet", ADDRESS], "give --user or --wallet, not both"),
        (["--wallet", "0x12"], "40 hexadecimal digits"),
        (["--wallet", ADDRESS.replace("b6", "B6")], "checksum"),
        (["--wallet", ADDRESS.replace("605", "650")], "checksum"),
        (["--user", ""], "1 to 200 printable characters"),
        ([*USER, "--days", "3", "--until", "9000-01-01"], "give --days or --until, not both"),
        ([*USER, "--days", "0"], "--days"),
        ([*USER, "--until", "tomorrow"], "write 2027-01-31 or 2027-01-31T09:00:00Z"),
        ([*USER, "--from", "2027-02-30"], "write 2027-01-31 or 2027-01-31T09:00:00Z"),
        ([*USER, "--tier", "gold"], "--tier"),
        ([*USER, "--tier", "feed"], "--why"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_what_is_needed(
    folder: Path, arguments: list[str], complaint: str
) -> None:
    why = () if complaint == "--why" else WHY
    result = run(folder, "grant", "--tier", "feed", *why, *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert answer(folder, "list") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--until", "2020-01-01"],
        ["--from", "9000-01-02", "--until", "9000-01-01"],
        ["--from", "9999-12-31", "--days", "30"],
        ["--from", "1969-12-31", "--until", "9000-01-01"],
        ["--why", " "],
        ["--by", ""],
    ],
)
def test_what_makes_no_sense_is_not_granted(folder: Path, arguments: list[str]) -> None:
    result = run(folder, "grant", *USER, "--tier", "feed", *WHY, *arguments)
    assert isinstance(result.exception, CannotGrant)
    assert answer(folder, "list") == []


def test_entitlements_are_listed_as_asked_for(folder: Path) -> None:
    assert run(folder, "list").stdout == "no entitlements\n"
    user, wallet = grant(folder), grant(folder, "--wallet", ADDRESS)
    reserve = answer(folder, "grant", *USER, "--tier", "reserve", *WHY)
    run(folder, "revoke", wallet["id"], *WHY, "--yes")

    def listed(*arguments: str) -> set[str]:
        return {each["id"] for each in answer(folder, "list", *arguments)}

    assert listed() == {user["id"], wallet["id"], reserve["id"]}
    assert listed(*USER) == {user["id"], reserve["id"]}
    assert listed("--wallet", ADDRESS) == {wallet["id"]}
    assert listed("--tier", "feed") == {user["id"], wallet["id"]}
    assert listed("--active", "--tier", "feed") == {user["id"]}
    assert len(listed("--last", "1")) == 1
    plain = run(folder, "list").stdout.splitlines()
    states = {line.split()[0]: line.split()[2] for line in plain}
    assert states == {user["id"]: "active", reserve["id"]: "active", wallet["id"]: "revoked"}


def test_an_entitlement_is_shown_with_its_trail(folder: Path) -> None:
    made = grant(folder, *USER, "--by", "front desk")
    grant(folder)
    run(folder, "revoke", made["id"], "--why", "refunded", "--yes")

    shown = answer(folder, "show", made["id"])
    assert [(each["action"], each["by"], each["why"]) for each in shown["trail"]] == [
        ("granted", "front desk", "paid by card"),
        ("extended", "operator", "paid by card"),
        ("revoked", "operator", "refunded"),
    ]
    assert shown["trail"][0]["ends_at"] == made["ends_at"]
    assert shown["trail"][1]["ends_at"] == shown["ends_at"] > made["ends_at"]
    assert (shown["state"], shown["revoked_at"]) == ("revoked", shown["trail"][2]["at"])

    plain = run(folder, "show", made["id"]).stdout.splitlines()
    assert plain[0].startswith(f"{made['id']}  feed     revoked  ")
    assert [line.split()[1] for line in plain[1:]] == ["granted", "extended", "revoked"]
    assert plain[3].endswith("operator: refunded")


def test_revoking_again_says_that_nothing_changed(folder: Path) -> None:
    made = grant(folder)
    first = answer(folder, "revoke", made["id"], *WHY, "--yes")
    second = answer(folder, "revoke", made["id"], *WHY)

    assert (first["changed"], second["changed"]) == (True, False)
    assert second["revoked_at"] == first["revoked_at"]
    plain = run(folder, "revoke", made["id"], *WHY)
    assert plain.stdout.startswith(f"nothing changed: {made['id']}")
    assert len(answer(folder, "show", made["id"])["trail"]) == 2


def test_revoking_asks_first(folder: Path) -> None:
    made = grant(folder)
    declined = run(folder, "revoke", made["id"], *WHY, given="n\n")
    assert declined.exit_code == 1
    assert f"Revoke {made['id']}" in declined.output
    assert answer(folder, "show", made["id"])["state"] == "active"

    assert run(folder, "revoke", made["id"], *WHY, given="y\n").exit_code == 0
    assert answer(folder, "show", made["id"])["state"] == "revoked"


def test_revoking_names_what_still_lets_the_holder_in(folder: Path) -> None:
    one = grant(folder)
    other = grant(folder, *USER, "--until", "9000-01-01")

    result = run(folder, "revoke", one["id"], *WHY, "--yes")
    assert result.stdout.startswith(f"revoked {one['id']}")
    assert result.stderr.startswith(f"still active: {other['id']}")
    assert run(folder, "revoke", other["id"], *WHY, "--yes").stderr == ""


@pytest.mark.parametrize("command", [["show"], ["revoke", *WHY, "--yes"]])
def test_an_unknown_id_is_said_with_where_to_look(folder: Path, command: list[str]) -> None:
    result = run(folder, *command, "ent_0000000000000000")
    assert isinstance(result.exception, UnknownEntitlement)
    assert "`barograph entitlements list`" in str(result.exception)

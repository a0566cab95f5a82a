"""`barograph settings` lists every setting, and no secret."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.settings import GROUPS, PREFIX, Settings

SECRETS = {
    "DATABASE_URL": "postgresql://me:hunter2@db.example,b.example:99/barograph?password=hunter2",
    "HISTORY_URL": "postgresql://hunter2@db.example/record",
    "LIMITS_URL": "redis://:hunter2@valkey.example:6379/0",
    "SMTP_URL": "smtps://hunter2:hunt/hunter2@x@mail.example:465",
    "MAIL_FROM": "barograph@example.com",
    "KEY_PEPPER": "hunter2" * 5,
    "HISTORY_KEY": "hunter2",
    "X402_CHAIN_URL": "https://node.example/v2/hunter2",
    "ETF_URL": "https://me:hunter2@issuer.example/f.csv?key=hunter2",
}


def show(*arguments: str, **variables: str) -> Result:
    environment = {PREFIX + name: text for name, text in variables.items()}
    return CliRunner().invoke(cli, ["settings", *arguments], env=environment)


def listed(result: Result) -> dict[str, dict[str, Any]]:
    rows = json.loads(result.stdout)["settings"]
    return {each["name"].removeprefix(PREFIX): each for each in rows}


def test_every_setting_is_in_one_group_with_its_origin(tmp_path: Path) -> None:
    result = show("--json", "--data", str(tmp_path), PORT="9000")
    rows = listed(result)

    assert result.exit_code == 0
    assert sorted(rows) == sorted(name.upper() for name in Settings.model_fields)
    assert list(dict.fromkeys(each["group"] for each in rows.values())) == list(GROUPS)
    shown = {
        name: (rows[name]["value"], rows[name]["origin"])
        for name in ("PORT", "HOST", "DATA", "BASE_URL", "DATABASE_URL", "KEY_PEPPER")
    }
    assert shown == {
        "PORT": ("9000", "environment"),
        "HOST": ("127.0.0.1", "default"),
        "DATA": (str(tmp_path), "--data"),
        "BASE_URL": ("http://127.0.0.1:9000", "derived from BAROGRAPH_HOST and BAROGRAPH_PORT"),
        "DATABASE_URL": (str(tmp_path / "barograph.sqlite3"), "derived from BAROGRAPH_DATA"),
        "KEY_PEPPER": (None, "default"),
    }


@pytest.mark.parametrize("wrong", [{}, {"PORT": "x"}, {"LIMITS_URL": "redis://h/hunter2"}])
def test_no_secret_is_shown_and_an_invalid_setting_ends_with_3(wrong: dict[str, str]) -> None:
    result = show("--json", **{**SECRETS, **wrong})

    assert "hunter2" not in result.output
    assert result.exit_code == (3 if wrong else 0)
    assert bool(json.loads(result.stdout)["error"]) is bool(wrong)
    rows = listed(result)
    assert rows["X402_CHAIN_URL"]["value"] == "https://node.example/…"
    assert rows["ETF_URL"]["value"] == "https://***@issuer.example/f.csv?…"
    assert rows["KEY_PEPPER"]["value"] == "set"
    if not wrong:
        urls = [rows[name]["value"] for name in list(SECRETS)[:4]]
        assert urls == [
            "postgresql://***@db.example,b.example:99/barograph?…",
            "postgresql://***@db.example/record",
            "redis://***@valkey.example:6379/0",
            "smtps://***@mail.example:465",
        ]


def test_text_is_aligned_and_names_what_is_not_set(tmp_path: Path) -> None:
    running = {"base_url": "http://127.0.0.1:7000", "exchange": "127.0.0.1:7001"}
    (tmp_path / "demo.json").write_text(json.dumps(running))
    result = show("--data", str(tmp_path), CONTACT="mailto:a@b.example", PROT="1")
    assert result.exit_code == 3
    assert "BAROGRAPH_PROT is not a setting; did you mean BAROGRAPH_PORT?" in result.stderr
    result = show("--data", str(tmp_path), CONTACT="mailto:a@b.example")
    lines = result.stdout.splitlines()

    titles = [line for line in lines if line and line[0] != " "]
    assert titles == ["Must set", "Identity", "Payments", "Tuning"]
    assert len({line.index("not set") for line in lines if "not set" in line}) == 1
    assert lines[1].split() == ["BAROGRAPH_BASE_URL", running["base_url"], "demo"]
    assert lines[3].split() == ["BAROGRAPH_CONTACT", "mailto:a@b.example", "environment"]
    assert "it chooses its other settings itself" in result.stderr

"""`barograph settings` lists every setting, and no secret."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.serve import warn_if_links_are_local
from barograph.errors import ConfigurationError
from barograph.settings import GROUPS, PREFIX, Settings

SECRETS = {
    "DATABASE_URL": "postgresql://me:hunter2@db.example,b.example:99/barograph?password=hunter2",
    "HISTORY_URL": "postgresql://hunter2@db.example/record",
    "LIMITS_URL": "redis://:hunter2@valkey.example:6379/0",
    "SMTP_URL": "smtps://hunter2:hunt/hunter2@x@mail.example:465",
    "MAIL_FROM": "barograph@example.com",
    "KEY_PEPPER": "hunter2" * 5,
    "HISTORY_KEY": "hunter2" * 6 + "A=",
    "X402_CHAIN_URL": "https://node.example/v2/hunter2",
    "ETF_URL": "https://me:hunter2@issuer.example/f.csv?key=hunter2",
}


def show(*arguments: str, **variables: str) -> Result:
    environment = {PREFIX + name: text for name, text in variables.items()}
    return CliRunner().invoke(cli, ["settings", *arguments], env=environment)


def listed(result: Result) -> dict[str, tuple[str, str | None, str]]:
    rows = [list(each.values()) for each in json.loads(result.stdout)["settings"]]
    return {name.removeprefix(PREFIX): (*shown,) for name, *shown, _meaning in rows}


def test_every_setting_is_listed_with_its_group_value_and_origin(tmp_path: Path) -> None:
    rows = listed(show("--json", "--data", str(tmp_path), PORT="9000"))

    assert sorted(rows) == sorted(name.upper() for name in Settings.model_fields)
    assert list(dict.fromkeys(group for group, *_ in rows.values())) == list(GROUPS)
    file = str(tmp_path / "barograph.sqlite3")
    derived = "derived from BAROGRAPH_HOST and BAROGRAPH_PORT"
    assert rows["PORT"] == ("must set", "9000", "environment")
    assert rows["DATA"] == ("must set", str(tmp_path), "--data")
    assert rows["BASE_URL"] == ("must set", "http://127.0.0.1:9000", derived)
    assert rows["DATABASE_URL"] == ("must set", file, "derived from BAROGRAPH_DATA")
    assert rows["X402_ASSET"] == ("payments", None, "default")


def test_warning_of_a_removed_setting_is_shown_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert show("--data", str(tmp_path), LEASE_SECONDS="5").exit_code == 0
    assert len(caplog.messages) == 1


def test_empty_variable_is_not_set_and_terms_name_the_command_that_lists_them() -> None:
    rows = listed(show("--json", ACCEPT_TERMS="", X402_ASSET=""))
    assert rows["X402_ASSET"] == ("payments", None, "default")
    assert rows["ACCEPT_TERMS"][1:] == (None, "see `barograph terms list`")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"HISTORY_KEY": "hunter2"},
        {"LIMITS_URL": "redis://h/hunter2"},
        {"EXCHANGE_REST_URL": "me:hunter2@host"},
    ],
)
def test_no_secret_is_shown_and_an_invalid_setting_exits_with_3(wrong: dict[str, str]) -> None:
    result = show("--json", **{**SECRETS, **wrong})

    assert "hunter2" not in result.output
    assert result.exit_code == (3 if wrong else 0)
    assert bool(json.loads(result.stdout)["error"]) is bool(wrong)
    shown = {name: listed(result)[name][1] for name in SECRETS}
    if wrong and "HISTORY_KEY" not in wrong:
        assert shown["DATABASE_URL"] == shown["KEY_PEPPER"] == "set"
    else:
        assert list(shown.values()) == [
            "postgresql://***@db.example,b.example:99/barograph?…",
            "postgresql://***@db.example/record",
            "redis://***@valkey.example:6379/0",
            "smtps://***@mail.example:465",
            "barograph@example.com",
            "set",
            "set",
            "https://node.example/…",
            "https://***@issuer.example/f.csv?…",
        ]


def test_no_secret_is_in_the_traceback_of_an_invalid_setting() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Settings.from_environment({"BAROGRAPH_LIMITS_URL": "hunter2"})
    assert "hunter2" not in f"{refused.value} {refused.value.__cause__}"


def test_text_is_aligned_and_names_the_address_of_a_running_demo(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text('{"base_url": "http://127.0.0.1:7000"}')
    result = show("--data", str(tmp_path))
    lines = result.stdout.splitlines()

    titles = [line for line in lines if line and line[0] != " "]
    assert titles == ["Must set", "Identity", "Payments", "Tuning"]
    assert len({line.index("not set") for line in lines if "not set" in line}) == 1
    assert lines[1].split() == ["BAROGRAPH_BASE_URL", "http://127.0.0.1:7000", "demo"]
    assert "it chooses its other settings itself" in result.stderr


def test_start_without_a_public_address_says_what_to_set(caplog: pytest.LogCaptureFixture) -> None:
    warn_if_links_are_local(Settings())
    warn_if_links_are_local(Settings(host="0.0.0.0", base_url="https://barograph.example"))
    assert not caplog.records
    for settings in (Settings(host="0.0.0.0"), Settings(trusted_proxies="127.0.0.1")):
        warn_if_links_are_local(settings)
    assert [each.message[:22] for each in caplog.records] == ["BAROGRAPH_BASE_URL is "] * 2

"""The operator's commands: what they print and with what they end."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from click.testing import CliRunner

from barograph.cli import HELP, PLACES, cli
from support.processes import HOST, unused_port

NO_EXCHANGE = {
    "BAROGRAPH_PORT": str(unused_port()),
    "BAROGRAPH_EXCHANGE_REST_URL": f"http://{HOST}:{unused_port()}",
    **{
        f"BAROGRAPH_{name}_URL": f"http://{HOST}:{unused_port()}"
        for name in ("HYPERLIQUID", "BINANCE_REST", "TREASURY", "NYFED", "ETF")
    },
}


def barograph(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "barograph", *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        umask=0o022,  # what most systems have: others may read
    )


LOOKED_AT = [
    *("port", "sqlite", "disk", "secrets", "database", "history", "collector", "guides"),
    *("limits", "terms"),
    *("bybit", "hyperliquid", "binance", "bybit-stream", "clock", "treasury", "nyfed", "etf"),
    *("identity", "facilitator", "chain", "mail", "witnesses"),
]


def findings(result: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(result.stdout)}


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        ["demo", "fault"],
        ["serve"],
        ["collect"],
        ["db", "upgrade"],
        ["db", "copy"],
        ["doctor"],
        ["settings"],
        ["terms", "list"],
        ["briefs"],
        ["guides", "check"],
        ["keys", "create"],
        ["keys", "list"],
        ["keys", "revoke"],
        ["demo", "mail"],
        ["payments", "settle"],
        ["payments", "fail"],
    ],
)
def test_help_has_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"barograph {' '.join(command)}" in result.stdout


def test_unknown_setting_ends_with_3_and_a_suggestion(tmp_path: Path) -> None:
    ended = barograph("db", "upgrade", "--data", str(tmp_path), BAROGRAPH_PROT="80")
    assert ended.returncode == 3
    assert ended.stderr == (
        "barograph: BAROGRAPH_PROT is not a setting; did you mean BAROGRAPH_PORT? "
        "(`barograph settings` lists them all)\n"
    )


def test_wrong_command_line_ends_with_2() -> None:
    assert barograph("serve", "--port", "many").returncode == 2


def test_upgrade_is_done_once_and_said_plainly(tmp_path: Path) -> None:
    first = CliRunner().invoke(cli, ["db", "upgrade", "--data", str(tmp_path)])
    second = CliRunner().invoke(cli, ["db", "upgrade", "--data", str(tmp_path)])
    assert (
        first.stdout == "applied record (history)\napplied guards (history)\n"
        "applied digests (history)\napplied event_heads (history)\n"
        "applied markets\napplied analysis\napplied keys\napplied macro\n"
        "applied settlement_reports\napplied entitlements\napplied payments\n"
        "applied status\napplied brief_lists\napplied registration_limits\n"
        "applied signed_heads\napplied payment_keys\napplied gmail_mailboxes\n"
        "applied venues\napplied instance\napplied secret_fingerprints\napplied history_keys\n"
        "applied events\napplied liquidation_files\napplied webhooks\n"
        "applied brief_versions\napplied public_logs\napplied webhook_secrets\n"
        "applied one_log\nthe schema is up to date\n"
    )
    assert second.stdout == "the schema is up to date\n"


def test_what_is_made_may_be_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert barograph("db", "upgrade", "--data", str(folder)).returncode == 0

    made = [folder, *folder.iterdir()]
    assert folder / "barograph.sqlite3" in made
    assert {each.name: each.stat().st_mode & 0o077 for each in made} == {
        each.name: 0 for each in made
    }


def test_a_command_on_a_database_that_is_not_there_ends_with_3(tmp_path: Path) -> None:
    ended = barograph("briefs", "list", "--data", str(tmp_path / "absent"))
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"barograph: no database in {tmp_path / 'absent'}: ")
    assert list(tmp_path.iterdir()) == []


def test_database_server_that_does_not_answer_ends_with_1_and_points_to_doctor(
    tmp_path: Path,
) -> None:
    url = f"postgresql://me:hunter2@{HOST}:{unused_port()}/barograph"
    result = barograph("keys", "list", "--data", str(tmp_path), BAROGRAPH_DATABASE_URL=url)
    assert result.returncode == 1
    assert result.stderr == (
        "barograph: the database cannot be used (ConnectionRefusedError): run `barograph doctor` "
        "to find out why\n"
    )


def test_the_history_has_one_fault_and_is_not_broken_by_asking_for_another() -> None:
    result = CliRunner().invoke(cli, ["demo", "fault", "history", "on", "--kind", "list"])
    assert result.exit_code == 2
    assert "leave --kind out" in result.stderr


def test_fault_without_a_running_demo_names_the_remedy(tmp_path: Path) -> None:
    ended = barograph("demo", "fault", "exchange", "on", "--data", str(tmp_path))
    assert ended.returncode == 3
    assert f"start one with `barograph demo --data {tmp_path}`" in ended.stderr


@pytest.mark.parametrize(
    ("part", "own"),
    [
        ("exchange", {"403-html", "stream-silence", "interval-change"}),
        ("bybit", {"403-html", "stream-silence", "interval-change"}),
        ("hyperliquid", {"geo-block", "unequal-lists"}),
        ("binance", {"geo-block", "418", "unknown-class", "stream-drop"}),
    ],
)
def test_every_kind_of_fault_is_listed(part: str, own: set[str]) -> None:
    result = CliRunner().invoke(cli, ["demo", "fault", part, "on", "--kind", "list"])
    distortions = {"doubled-open-interest", "inverted-side", "wrong-unit", "wrong-interval"}
    assert {"hang", "slow", *own, *distortions} <= set(result.stdout.split())


def test_doctor_names_each_problem_with_its_remedy(tmp_path: Path) -> None:
    confirmed = NO_EXCHANGE | {"BAROGRAPH_ACCEPT_TERMS": "bybit", "SUDO_USER": "operator"}
    result = barograph("doctor", "--json", "--data", str(tmp_path), **confirmed)
    assert result.returncode == 1
    found = findings(result)
    assert list(found) == LOOKED_AT
    failing = [name for name, finding in found.items() if not finding["ok"]]
    assert failing == ["bybit", "bybit-stream"]
    assert {found[name]["status"] for name in failing} == {"fail"}
    assert found["database"]["detail"] == "there is no database yet: `serve` creates one"
    assert found["bybit"]["detail"].startswith("unreachable")
    assert all(finding["remedy"] for finding in found.values() if not finding["ok"])
    assert found["terms"]["remedy"].endswith("in BAROGRAPH_ACCEPT_TERMS")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("key-pepper", 0o644),
        ("history-key", 0o602),
        pytest.param("key-pepper", 0o602, marks=pytest.mark.thorough),
        pytest.param("history-key", 0o644, marks=pytest.mark.thorough),
    ],
)
def test_secret_that_other_users_may_read_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    secret = tmp_path / name
    secret.write_bytes(bytes(32))
    secret.chmod(mode)
    ended = barograph("serve", "--data", str(tmp_path), **NO_EXCHANGE)
    assert ended.returncode == 3
    assert f"run `chmod 600 {secret}`" in ended.stderr
    found = findings(barograph("doctor", "--json", "--data", str(tmp_path), **NO_EXCHANGE))
    assert (found["secrets"]["ok"], found["secrets"]["remedy"]) == (False, f"chmod 600 {secret}")
    assert secret.read_bytes() == bytes(32)


def test_data_folder_that_other_users_may_write_to_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with socket.create_server((HOST, 0)) as other:  # so that `serve` ends by itself
        port = str(other.getsockname()[1])
        taken = NO_EXCHANGE | {"BAROGRAPH_PORT": port}
        for mode, remedy in ((0o777, f"chmod o-w {data}"), (0o755, "")):
            data.chmod(mode)
            found = findings(barograph("doctor", "--json", "--data", str(data), **taken))
            assert found["port"]["remedy"] == "stop the other program or set BAROGRAPH_PORT"
            assert (found["secrets"]["ok"], found["secrets"]["remedy"]) == (not remedy, remedy)
            ended = barograph("serve", "--data", str(data), **taken)
            assert ended.returncode == 3
            assert ("may write to the data folder" in ended.stderr) is bool(remedy)
            assert remedy in ended.stderr


def test_doctor_is_plain_when_piped(tmp_path: Path) -> None:
    result = barograph("doctor", "--data", str(tmp_path), **NO_EXCHANGE)
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert [line[5:].partition(":")[0] for line in lines] == LOOKED_AT
    assert {line[:5] for line in lines} == {"ok   ", "note ", "FAIL "}


def test_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = barograph("db", "upgrade", "--data", str(tmp_path / "file" / "data"))
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1


def test_demo_refuses_a_misspelt_setting_at_once(tmp_path: Path) -> None:
    ended = barograph("demo", "--data", str(tmp_path), BAROGRAPH_PRT="1")
    assert ended.returncode == 3
    assert "BAROGRAPH_PRT is not a setting" in ended.stderr


@pytest.mark.outcome(
    "The operator's guide catalog is invalid",
    "`serve` refuses to start, and `doctor` fails. Every problem is named with its fix.",
)
def test_doctor_and_serve_refuse_a_bad_catalog_and_doctor_a_silent_mail_server(
    tmp_path: Path,
) -> None:
    catalog = tmp_path / "guides.toml"
    catalog.write_text('source = "ours"\n')
    settings = {
        **NO_EXCHANGE,
        "BAROGRAPH_GUIDES_FILE": str(catalog),
        "BAROGRAPH_SMTP_URL": "smtp://127.0.0.1:1",
        "BAROGRAPH_MAIL_FROM": "barograph@example.com",
    }
    found = findings(barograph("doctor", "--json", "--data", str(tmp_path), **settings))
    assert found["guides"]["remedy"] == f"barograph guides check {catalog}"
    assert found["mail"]["remedy"] == "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM"
    served = barograph("serve", "--data", str(tmp_path), **settings)
    assert served.returncode == 3
    assert "BAROGRAPH_GUIDES_FILE" in served.stderr
    assert "Traceback" not in served.stderr


def test_help_of_all_commands_is_each_one_s_own_and_imports_none_of_them() -> None:
    for name, place in PLACES.items():
        assert HELP[name] == resolve_name(place).get_short_help_str(limit=1000)
    program = """
import sys
from barograph.cli import cli
cli.main(["--help"], standalone_mode=False)
print([name for name in sys.modules if name.startswith("barograph.cli.")])
print({"pydantic", "msgspec", "httpx2", "apsw"} & {*sys.modules})
"""
    shown = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert [line.split()[0] for line in shown.splitlines() if line[2:].startswith(tuple(HELP))] == [
        *sorted(HELP)
    ]
    assert shown.endswith("\n[]\nset()\n")


def test_without_the_demo_s_package_the_command_says_what_to_install() -> None:
    program = """
import importlib.metadata
importlib.metadata.entry_points = lambda **_: ()
from barograph.cli import main
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, "demo"], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "pip install barograph-demo" in ended.stderr
    assert "Traceback" not in ended.stderr

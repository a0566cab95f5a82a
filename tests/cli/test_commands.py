"""The operator's commands: what they print and with what they end."""

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import pytest
from click.testing import CliRunner

from barograph.cli import HELP, PLACES, cli
from barograph.errors import ConfigurationError
from barograph.history.ledger import HISTORY
from barograph.kit.migrations import packaged_migrations
from barograph.settings import VENUE_SETTINGS
from barograph.venue_names import VENUE_NAMES
from support.processes import HOST, unused_port

NO_EXCHANGE = {
    "BAROGRAPH_PORT": str(unused_port()),
    "BAROGRAPH_EXCHANGE_REST_URL": f"http://{HOST}:{unused_port()}",
    **{
        f"BAROGRAPH_{name}_URL": f"http://{HOST}:{unused_port()}"
        for name in ("HYPERLIQUID", "BINANCE_REST", "TREASURY", "NYFED", "ETF")
    },
    "BAROGRAPH_VENUE_URLS": ",".join(
        f"{name}=http://{HOST}:{unused_port()}"
        for name in VENUE_NAMES
        if name not in VENUE_SETTINGS
    ),
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
    *(*VENUE_NAMES, "bybit-stream", "clock", "treasury", "nyfed", "etf"),
    *("identity", "facilitator", "chain", "mail", "witnesses"),
]


def findings(data: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What `doctor` finds in a folder."""
    command = ["doctor", "--json", "--data", str(data)]
    level = logging.getLogger().level  # which the command raises
    result = CliRunner().invoke(cli, command, env={**NO_EXCHANGE, **environment})
    logging.getLogger().setLevel(level)
    return {finding["name"]: finding for finding in json.loads(result.stdout)}


def every_command() -> Iterator[list[str]]:
    def below(command: click.Command, path: list[str]) -> Iterator[list[str]]:
        yield path
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(inner, [*path, name])

    for name, place in PLACES.items():
        yield from below(resolve_name(place), [name])


def test_help_of_every_command_has_an_example() -> None:
    without = [["audit"], ["db"], ["events"], ["demo", "world"]]
    for command in every_command():
        result = CliRunner().invoke(cli, [*command, "--help"])
        assert result.exit_code == 0
        examples = result.stdout.partition("Example")[2]
        assert (f"barograph {' '.join(command)}" in examples) == (command not in without)


@pytest.mark.outcome(
    "A command finds no database in the data folder",
    "It exits with 3, says how to choose or create one, and creates nothing.",
)
@pytest.mark.parametrize("is_there", [False, True], ids=["no folder", "empty folder"])
@pytest.mark.parametrize(
    "command",
    [
        "briefs publish BRIEF",
        "briefs list",
        "briefs list --json",
        "entitlements list",
        "entitlements grant --user x --tier feed --why y",
        "keys create --email a@b.example",
        "keys list",
        "keys forget --email a@b.example --yes",
        "payments list",
        "webhooks list",
    ],
)
def test_a_folder_without_a_database_is_refused_and_nothing_is_made(
    tmp_path: Path, command: str, is_there: bool
) -> None:
    data = tmp_path / "data"
    if is_there:
        data.mkdir()
    brief = tmp_path / "brief.md"
    brief.write_text("---\nheadline: A headline\nsummary: A summary.\n---\nA text.\n")
    arguments = command.replace("BRIEF", str(brief)).split()
    result = CliRunner().invoke(cli, [*arguments, "--data", str(data)])
    assert isinstance(result.exception, ConfigurationError), result.output
    assert result.stdout == ""
    said = str(result.exception)
    assert said.startswith(f"no database in {data}: choose its folder with --data")
    assert f"`barograph db upgrade --data {data}`" in said
    assert data.exists() == is_there
    assert not is_there or list(data.iterdir()) == []


@pytest.mark.parametrize("command", [["db", "upgrade"], ["demo"]])
def test_unknown_setting_ends_with_3_and_a_suggestion(tmp_path: Path, command: list[str]) -> None:
    ended = barograph(*command, "--data", str(tmp_path), BAROGRAPH_PROT="80")
    assert ended.returncode == 3
    assert ended.stderr == (
        "barograph: BAROGRAPH_PROT is not a setting; did you mean BAROGRAPH_PORT? "
        "(`barograph settings` lists them all)\n"
    )


def test_wrong_command_line_ends_with_2() -> None:
    assert barograph("serve", "--port", "many").returncode == 2


def test_upgrade_is_done_once_and_said_plainly(tmp_path: Path) -> None:
    first, second = (
        CliRunner().invoke(cli, ["db", "upgrade", "--data", str(tmp_path)]).stdout for _ in range(2)
    )
    history = [f"applied {each.name} (history)" for each in packaged_migrations(HISTORY)]
    service = [f"applied {each.name}" for each in packaged_migrations()]
    assert first.splitlines() == [*history, *service, "the schema is up to date"]
    assert second == "the schema is up to date\n"


def test_what_is_made_may_be_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert barograph("db", "upgrade", "--data", str(folder)).returncode == 0

    made = [folder, *folder.iterdir()]
    assert folder / "barograph.sqlite3" in made
    assert {each.name: each.stat().st_mode & 0o077 for each in made} == {
        each.name: 0 for each in made
    }


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


def test_doctor_names_each_problem_with_its_remedy(tmp_path: Path) -> None:
    found = findings(tmp_path, BAROGRAPH_ACCEPT_TERMS="bybit", SUDO_USER="operator")
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
    found = findings(tmp_path)
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
            found = findings(data, BAROGRAPH_PORT=port)
            assert found["port"]["remedy"] == "stop the other program or set BAROGRAPH_PORT"
            assert (found["secrets"]["ok"], found["secrets"]["remedy"]) == (not remedy, remedy)
            ended = barograph("serve", "--data", str(data), **taken)
            assert ended.returncode == 3
            assert ("may write to the data folder" in ended.stderr) is bool(remedy)
            assert remedy in ended.stderr


def test_doctor_is_plain_when_piped(tmp_path: Path) -> None:
    result = barograph("doctor", "--data", str(tmp_path), **NO_EXCHANGE)
    assert (result.returncode, result.stderr) == (1, "")
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert [line[5:].partition(":")[0] for line in lines] == LOOKED_AT
    assert {line[:5] for line in lines} == {"ok   ", "note ", "FAIL "}


def test_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = barograph("db", "upgrade", "--data", str(tmp_path / "file" / "data"))
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1


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
    found = findings(tmp_path, **settings)
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

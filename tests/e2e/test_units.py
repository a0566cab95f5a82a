"""The systemd units: valid, confined, and with commands that run on the example settings."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.kit.operating_system import lock_folder
from barograph.settings import Settings
from support.processes import eventually, running, unused_port

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("barograph-*.service"))
DATA = "var/lib/barograph"
ANALYZE = "/usr/bin/systemd-analyze"
EXPOSURE = 15
"""The highest score of `systemd-analyze security`, times ten; 100 is unconfined."""

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What `/` holds on a host: the program, and units that name it."""
    for folder in ("opt/barograph", DATA, "var/backups/barograph", "units"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt/barograph/.venv").symlink_to(sys.prefix)
    (tmp_path / "opt/barograph/deploy").symlink_to(DEPLOY)
    for unit in (DEPLOY / "systemd").glob("barograph-*"):
        text = re.sub(r"(?<=[= ])/(?=opt|var)", f"{tmp_path}/", unit.read_text("utf-8"))
        (tmp_path / "units" / unit.name.replace("@", "@8080")).write_text(text)
    return tmp_path


def command(root: Path, name: str) -> list[str]:
    text = (root / "units" / name).read_text("utf-8")
    return shlex.split(re.findall("^ExecStart=(.*)", text, re.MULTILINE)[0])


def environment(root: Path) -> dict[str, str]:
    lines = shlex.split((DEPLOY / "barograph.env").read_text("utf-8"), comments=True)
    own = [f"BAROGRAPH_DATA={root}/{DATA}", "BAROGRAPH_METRICS_PORT=0"]
    return dict(line.split("=", 1) for line in [*lines, *own, "PATH=/usr/bin:/bin"])


def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(arguments, env=variables, capture_output=True, text=True, check=False)


def test_units_are_valid_and_confined(root: Path) -> None:
    units = [str(each) for each in (root / "units").iterdir()]
    verified = run(ANALYZE, "verify", "--man=no", *units)
    assert (verified.returncode, verified.stderr) == (0, "")
    for unit in units:
        if unit.endswith(".service"):
            rated = run(ANALYZE, "security", "--offline=true", f"--threshold={EXPOSURE}", unit)
            sys.stdout.write(rated.stdout.splitlines()[-1] + "\n")
            assert rated.returncode == 0


def test_a_stop_of_the_unit_waits_for_a_worker_that_takes_a_payment() -> None:
    wallet = "0x" + "11" * 20
    paid = Settings(x402_facilitator_url="https://a.example", x402_asset=wallet, x402_pay_to=wallet)
    (seconds,) = re.findall(r"TimeoutStopSec=(\d+)", UNITS[-1].read_text("utf-8"))
    assert int(seconds) >= paid.stop_seconds + 10


def test_web_server_of_the_unit_serves_and_logs_only_json(root: Path) -> None:
    _, *arguments, _ = command(root, "barograph-web@8080.service")
    log = root / "log"
    with running(*arguments, str(unused_port()), log=log, **environment(root)) as server:
        eventually(lambda: '"message": "serving"' in log.read_text(), "its first line")
        with pytest.raises(ConfigurationError, match="in use"), lock_folder(root / DATA):
            pass  # what a restore does
        eventually(lambda: server.family()[1:] or None, "a worker")[-1].kill()
        eventually(lambda: '"logger": "_granian"' in log.read_text(), "the end of the worker")
        server.stop()
        assert server.popen.returncode == 0
    assert all("time" in json.loads(line) for line in log.read_text().splitlines())


def test_collector_of_the_unit_needs_confirmed_terms_and_is_not_restarted(root: Path) -> None:
    ran = run(*command(root, "barograph-collector.service"), **environment(root))
    assert ran.returncode == 3
    assert "set BAROGRAPH_ACCEPT_TERMS=" in json.loads(ran.stderr.splitlines()[-1])["message"]
    for unit in UNITS[1:]:
        assert "RestartPreventExitStatus=2 3\n" in unit.read_text("utf-8")


def test_backup_of_the_unit_keeps_the_newest_folders(root: Path) -> None:
    settings, backups = environment(root), root / "var/back ups"
    backup, _, number = command(root, "barograph-backup.service")
    for year in range(20):
        (backups / f"20{year:02}-01-01T00-00-00Z").mkdir(parents=True)
    (killed := backups / ".2019-01-01T00-00-00Z.incomplete-x").mkdir()
    os.utime(killed, (0, 0))
    assert run(backup, str(backups), number, **settings).returncode == 3  # there is no database
    assert len([*backups.iterdir()]) == 21
    run(str(root / "opt/barograph/.venv/bin/barograph"), "db", "upgrade", **settings)
    assert run(backup, str(backups), number, **settings).returncode == 0
    kept = sorted(each.name for each in backups.iterdir())
    assert (len(kept), kept[0]) == (14, "2007-01-01T00-00-00Z")
    assert (backups / kept[-1] / "manifest.json").exists()

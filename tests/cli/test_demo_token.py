"""The demo's bearer tokens and the faults of its identity provider, on the terminal."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from joserfc.jws import extract_compact

from barograph_demo.commands import demo
from barograph_demo.servers.faults import IdentityFault
from barograph_demo.servers.identity import DEMO_USERS, load_or_create_key


def test_a_token_of_the_running_demo_is_printed_and_nothing_else(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    (tmp_path / "demo.json").write_text(json.dumps({"identity": "127.0.0.1:4711"}))
    for tier, user in DEMO_USERS.items():
        command = ["token", "--tier", tier, "--data", str(tmp_path)]
        printed = CliRunner().invoke(demo, command, catch_exceptions=False).stdout
        assert printed.count("\n") == 1
        claims = json.loads(extract_compact(printed.strip().encode()).payload)
        assert (claims["sub"], claims["iss"]) == (user, "http://127.0.0.1:4711/auth/v1")


@pytest.mark.parametrize("arguments", [["--tier", "gold"], []])
def test_no_token_without_a_known_tier_and_a_running_demo(
    tmp_path: Path, arguments: list[str]
) -> None:
    result = CliRunner().invoke(demo, ["token", *arguments, "--data", str(tmp_path)])
    assert result.exit_code != 0
    assert result.stdout == ""


def test_the_faults_of_the_identity_provider_are_listed() -> None:
    command = ["fault", "identity", "on", "--kind", "list"]
    printed = CliRunner().invoke(demo, command, catch_exceptions=False).stdout
    assert set(printed.split()) == set(IdentityFault)

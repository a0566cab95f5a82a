"""The commands of docs/entitlements.md, run one after the other as they are written there."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.entitlements import entitlements

PAGE = (Path(__file__).parents[2] / "docs" / "entitlements.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
EXAMPLE = "ent_k3v7q2mzx4c6w5yt"
"""Stands on the page for the entitlement that its first command makes."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """What each command of the page answers."""
    runner = CliRunner(env={"BAROGRAPH_DATA": str(tmp_path_factory.mktemp("data"))})
    assert runner.invoke(cli, ["db", "upgrade"]).exit_code == 0
    done: list[Result] = []
    for command in COMMANDS:
        made = done[0].stdout.split()[1] if done else EXAMPLE
        program, *arguments = shlex.split(command.replace(EXAMPLE, made))
        assert program == "barograph"
        done.append(runner.invoke(cli, arguments))
    return done


def test_every_command_of_the_page_works_as_written(results: list[Result]) -> None:
    assert [result.output for result in results if result.exit_code] == []
    assert "no entitlements" not in "".join(result.output for result in results)


def test_the_commands_of_the_page_do_what_it_says(results: list[Result]) -> None:
    said = [result.stdout.split()[0] for result in results]
    made = results[0].stdout.split()[1]

    assert said[:3] == ["granted"] * 3
    assert "2030-01-01T00:00:00.000Z to 2031-01-01T00:00:00.000Z" in results[2].stdout
    assert f"{made}  feed     active" in results[3].stdout
    assert results[-2].stdout.splitlines()[1].endswith("operator: paid by card")
    assert results[-1].stdout.startswith(f"revoked {made}  feed     revoked")


def test_the_page_shows_every_command(results: list[Result]) -> None:
    shown = {shlex.split(command)[2] for command in COMMANDS}
    assert shown == set(entitlements.commands)

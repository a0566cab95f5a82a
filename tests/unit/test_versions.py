"""`__version__` of the service decides the version of everything that we release."""

import json
import re
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

import barograph_client
import barograph_demo
from barograph import __version__
from barograph.cli import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "module", "folder", "pinned"),
    [
        ("barograph", None, ".", {"barograph-client"}),
        ("barograph-client", barograph_client, "client", set()),
        ("barograph-demo", barograph_demo, "demo", {"barograph"}),
    ],
)
def test_each_package_has_the_version_of_the_service_and_needs_ours_at_exactly_that_one(
    name: str, module: object, folder: str, pinned: set[str]
) -> None:
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
    ours = [each for each in project["dependencies"] if each.startswith("barograph")]

    assert "version" in project["dynamic"]
    assert getattr(module, "__version__", __version__) == __version__
    assert version(name) == __version__
    assert set(ours) == {f"{each}=={__version__}" for each in pinned}


def test_the_command_the_examples_and_the_changelog_have_the_version_of_the_service() -> None:
    shown = CliRunner().invoke(cli, ["--version"]).output
    text = (files("barograph.discovery") / "examples.json").read_text("utf-8")
    answers = json.loads(text)["answers"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[([\d.]+)\]", changelog, re.MULTILINE)

    assert shown == f"barograph, version {__version__}\n"
    assert answers["getStatus"]["200"]["api"]["version"] == __version__
    assert answers["getMcpServerCard"]["200"]["version"] == __version__
    assert released[0] == __version__

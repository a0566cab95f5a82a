"""The client as a distribution of its own: built, and installed where nothing else is."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.published_server import published_server

PROJECT = Path(__file__).parents[2]
CLIENT = PROJECT / "client"
SERVER_PACKAGES = {"barograph", "fastapi", "granian", "mcp", "pydantic", "starlette"}
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the built client."""
    folder = tmp_path_factory.mktemp("client")
    _pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, CLIENT)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    found = folder / "venv/bin/python"
    (built,) = folder.glob("barograph_client-*.whl")
    _pip(found, "install", "-c", _constraints(folder), built)
    return found


def _pip(python: str | Path, *arguments: str | Path) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _constraints(folder: Path) -> Path:
    """The locked versions, without hashes: the wheel that was just built has none."""
    locked = (PROJECT / "requirements.txt").read_text("utf-8")
    found = re.findall(r"^([\w.-]+==[^\s;\\]+)", locked, re.MULTILINE)
    file = folder / "constraints.txt"
    file.write_text("\n".join(found), "utf-8")
    return file


def test_client_installs_without_any_package_of_the_server(python: Path) -> None:
    listed = _pip(python, "list", "--format", "json")
    names = {each["name"].lower() for each in json.loads(listed)}

    assert {"barograph-client", "httpx2", "msgspec"} <= names
    assert names & SERVER_PACKAGES == set()


def test_example_of_its_readme_runs_in_the_fresh_environment(python: Path, tmp_path: Path) -> None:
    readme = (CLIENT / "README.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    with published_server(tmp_path, workers=1) as address:
        program = program.replace("http://127.0.0.1:8080", address)
        done = subprocess.run(
            [python, "-c", program], check=True, capture_output=True, text=True, cwd=python.parent
        )

    assert re.fullmatch(r"\S+ .+\n(\S+Z -?[0-9.e-]+\n)+", done.stdout)

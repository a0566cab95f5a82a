"""Spectral's rules for OpenAPI find nothing to say about either description."""

from pathlib import Path

import pytest

from support.node import SCRIPTS, Ended, run_program
from support.service import fresh_service

pytestmark = pytest.mark.e2e

SPECTRAL = SCRIPTS / "spectral"
RULESET = str(SPECTRAL / "ruleset.yaml")
SILENT = "No results with a severity of 'hint' or higher found!"


@pytest.mark.parametrize("name", ["openapi.json", "openapi-gpt.json"])
def test_spectral_has_no_error_and_no_warning(tmp_path: Path, name: str) -> None:
    description = tmp_path / name
    with fresh_service(tmp_path) as service:
        description.write_bytes(service.ask(f"/{name}").body)

    done = _lint(description, tmp_path)

    assert (done.returncode, done.stdout.strip()) == (0, SILENT), done.stdout + done.stderr


def test_spectral_is_really_asked(tmp_path: Path) -> None:
    description = tmp_path / "poor.json"
    description.write_text('{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{}}')

    done = _lint(description, tmp_path)

    assert done.returncode == 1
    assert "info-contact" in done.stdout


def _lint(description: Path, home: Path) -> Ended:
    arguments = ("lint", str(description), "--ruleset", RULESET, "--fail-severity", "hint")
    return run_program("spectral", *arguments, packages=SPECTRAL, home=home)

"""The artefacts of a release, built from the last commit."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


def test_release_has_verified_packages_and_names_all_that_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    script: list[str | Path] = [sys.executable, ROOT / "tools/release.py", folder]
    said = subprocess.run(script, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    listed = (folder / "SHA256SUMS").read_text("utf-8").splitlines()
    assert listed == [
        f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}"
        for each in sorted(folder.iterdir())
        if each.name != "SHA256SUMS"
    ]
    assert "Two builds gave the same bytes." in said
    for name in ("barograph", "barograph-client", "barograph-demo"):
        assert f"{name} runs alone" in said

    (file,) = folder.glob("*.cdx.json")
    bill = json.loads(file.read_text("utf-8"))
    components = {
        each["name"]: each for each in [bill["metadata"]["component"], *bill["components"]]
    }
    lock = (ROOT / "requirements.txt").read_text("utf-8")
    for name, version in re.findall(r"^([\w.-]+)==(\S+) \\$", lock, re.MULTILINE):
        assert components[name]["purl"] == f"pkg:pypi/{name}@{version}"
        assert components[name]["hashes"]
    assert {each["ref"] for each in bill["dependencies"]} == {
        each["bom-ref"] for each in components.values()
    }
    table = (folder / "LICENCES.md").read_text("utf-8")
    assert all(f"| {name} |" in table for name in components if not name.startswith("barograph"))

"""The code of docs/history.md, run exactly as it is written there."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from support.history import RATES, PublicHistory, delivered

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
(CHECK,) = BLOCK.findall(PAGE.read_text("utf-8"))
SIZE = 1003
"""More than one page."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    history = PublicHistory(tmp_path_factory.mktemp("history"))
    history.record(SIZE)
    yield history
    history.close()


def check(
    history: PublicHistory, folder: Path, sequence: int, body: dict[str, Any], size: int = SIZE
) -> "subprocess.CompletedProcess[str]":
    """Check a body with the proof of a version, which may claim another size of the log."""
    digest = history.version(sequence).history_digest
    proof = history.ask(f"/history/events/{digest}.tlog-proof").body.decode()
    (folder / "check.py").write_text(CHECK, "utf-8")
    (folder / "stance.tlog-proof").write_text(proof.replace(f"\n{SIZE}\n", f"\n{size}\n"), "utf-8")
    (folder / "stance.json").write_text(json.dumps(body), "utf-8")
    verifier = history.ask("/api/history/checkpoint").json()["verifier"]
    return subprocess.run(
        [sys.executable, "check.py", "stance.json", "stance.tlog-proof", verifier],
        cwd=folder,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("sequence", [1, 2, SIZE])
def test_the_page_s_code_finds_a_stance_in_the_log(
    history: PublicHistory, tmp_path: Path, sequence: int
) -> None:
    done = check(history, tmp_path, sequence, delivered(history.version(sequence)))

    assert (done.returncode, done.stderr) == (0, "")
    place = f"the stance is version {sequence}, entry {sequence} of {SIZE} in "
    assert done.stdout == f"{place}barograph.example/history/events\n"


def test_the_page_s_code_notices_another_stance_and_another_signature(
    history: PublicHistory, tmp_path: Path
) -> None:
    changed = deepcopy(delivered(history.version(5)))
    changed["leg"]["decision"]["label"] = "constructive"
    for sequence, body in ((5, changed), (6, delivered(history.version(5)))):
        done = check(history, tmp_path, sequence, body)
        assert (done.returncode, done.stderr) == (1, "the stance is not what was recorded\n")

    forged = check(history, tmp_path, 6, delivered(history.version(6)), size=SIZE + 1)
    assert "InvalidSignature" in forged.stderr


def test_the_page_names_every_address_of_the_history(history: PublicHistory) -> None:
    page = PAGE.read_text("utf-8")
    for rest in ("{kind}", "{kind}/events", "checkpoint"):
        assert f"`/api/history/{rest}`" in page
        assert history.ask(f"/api/history/{rest.replace('{kind}', RATES)}").status == 200

"""The code of docs/history.md, run exactly as it is written there."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from barograph.history.checkpoint import Checkpoint, sign_checkpoint
from barograph.history.merkle import tree_root
from barograph.history.signing import load_history_key
from support.history import RATES, PublicHistory, delivered

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECK, RECOMPUTE = BLOCK.findall(PAGE.read_text("utf-8"))
SIZE = 1003
"""More than one page."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    history = PublicHistory(tmp_path_factory.mktemp("history"))
    history.record(SIZE)
    yield history
    history.close()


def run(folder: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "check.py").write_text(code, "utf-8")
    return subprocess.run(
        [sys.executable, "check.py", *arguments],
        cwd=folder,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check(
    history: PublicHistory, folder: Path, sequence: int, body: dict[str, Any]
) -> "subprocess.CompletedProcess[str]":
    """Check a body with the proof of a version."""
    digest = history.version(sequence).history_digest
    proof = history.ask(f"/history/events/{digest}.tlog-proof").body
    (folder / "stance.tlog-proof").write_bytes(proof)
    (folder / "stance.json").write_text(json.dumps(body), "utf-8")
    verifier = history.ask("/api/history/checkpoint").json()["verifier"]
    return run(folder, CHECK, "stance.json", "stance.tlog-proof", verifier)


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
    done = check(history, tmp_path, 5, changed)
    assert (done.returncode, done.stderr) == (1, "the stance is not what was recorded\n")

    done = check(history, tmp_path, 6, delivered(history.version(5)))
    assert (done.returncode, done.stderr) == (1, "the stance is not what was recorded\n")

    proof = (tmp_path / "stance.tlog-proof").read_text("utf-8")
    (tmp_path / "stance.json").write_text(json.dumps(delivered(history.version(6))), "utf-8")
    forged = proof.replace(f"\n{SIZE}\n", f"\n{SIZE + 1}\n")
    (tmp_path / "stance.tlog-proof").write_text(forged, "utf-8")
    verifier = history.ask("/api/history/checkpoint").json()["verifier"]
    done = run(tmp_path, CHECK, "stance.json", "stance.tlog-proof", verifier)
    assert "InvalidSignature" in done.stderr


@pytest.fixture(scope="module")
def base_url(history: PublicHistory) -> Iterator[str]:
    """Where the history is served, on a real port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = history.ask(self.path)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_the_page_s_code_recomputes_a_kept_checkpoint_of_an_old_log(
    history: PublicHistory, base_url: str, tmp_path: Path, is_rewritten: bool
) -> None:
    digests = [history.version(sequence).history_digest for sequence in range(1, SIZE)]
    if is_rewritten:
        digests[3] = "0" * 64
    origin = f"barograph.example/history/{RATES}"
    checkpoint = Checkpoint(origin, len(digests), tree_root(digests))
    note = sign_checkpoint(checkpoint, load_history_key(history.service.settings))
    (tmp_path / "kept.txt").write_text(note, "utf-8")
    done = run(tmp_path, RECOMPUTE, base_url, "kept.txt")

    assert done.returncode == is_rewritten, done.stderr
    said = "the history was rewritten" if is_rewritten else f"the first {SIZE - 1} entries of"
    assert said in done.stdout + done.stderr


def test_the_page_names_every_address_of_the_history(history: PublicHistory) -> None:
    page = PAGE.read_text("utf-8")
    for rest in ("{kind}", "{kind}/events", "checkpoint"):
        assert f"`/api/history/{rest}`" in page
        assert history.ask(f"/api/history/{rest.replace('{kind}', RATES)}").status == 200

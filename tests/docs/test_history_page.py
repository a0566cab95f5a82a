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

from barograph.history.origins import rotate_key, start_origin
from barograph.history.signing import FILE_NAME
from support.history import RATES, PublicHistory, delivered

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = "\n".join(BLOCK.findall(PAGE.read_text("utf-8")))
SIZE = 1003
"""More than one page."""


class Stranger:
    """Has the page's code, a stance and a checkpoint from the last time."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder = folder
        self.base_url = base_url
        (folder / "check.py").write_text(CODE, "utf-8")

    def check(self, stance: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
        (self.folder / "stance.json").write_text(json.dumps(stance), "utf-8")
        return subprocess.run(
            [sys.executable, "check.py", self.base_url, "stance.json", "kept.txt"],
            cwd=self.folder,
            env={"PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicHistory]:
    history = PublicHistory(tmp_path_factory.mktemp("history"))
    history.record(SIZE)
    yield history
    history.close()


@pytest.fixture(scope="module")
def base_url(history: PublicHistory) -> Iterator[str]:
    """Where the history is served, on a real port; its logs are named after that."""

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
        address = f"http://127.0.0.1:{server.server_port}"
        history.app = history.new_worker(base_url=address)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield address
        server.shutdown()
        serving.join()


@pytest.fixture
def stranger(tmp_path: Path, base_url: str) -> Stranger:
    return Stranger(tmp_path, base_url)


def stance(history: PublicHistory, sequence: int) -> dict[str, Any]:
    return delivered(history.version(sequence))


@pytest.mark.parametrize("sequence", [1, 2, SIZE])
def test_the_page_s_code_finds_a_stance_as_it_was_recorded(
    history: PublicHistory, stranger: Stranger, sequence: int
) -> None:
    done = stranger.check(stance(history, sequence))

    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{SIZE} versions, signed by ")
    assert second == f"the stance is version {sequence}, as it was recorded"


def test_the_page_s_code_compares_with_the_checkpoint_that_was_kept(
    history: PublicHistory, stranger: Stranger
) -> None:
    stranger.check(stance(history, 1))
    done = stranger.check(stance(history, 2))

    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last == f"the first {SIZE} versions are the same as at the last check"


def test_the_page_s_code_notices_a_stance_that_was_changed(
    history: PublicHistory, stranger: Stranger
) -> None:
    changed = deepcopy(stance(history, 5))
    changed["leg"]["decision"]["label"] = "constructive"
    done = stranger.check(changed)
    assert (done.returncode, done.stderr) == (1, "the stance is not what was recorded\n")

    unknown = stance(history, 5) | {"history_digest": "0" * 64}
    done = stranger.check(unknown)
    assert (done.returncode, done.stderr) == (1, "the stance is not in the signed list\n")


def test_the_page_s_code_notices_a_history_that_was_rewritten(
    history: PublicHistory, stranger: Stranger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same key signs another history, which is complete and sound in itself."""
    other = PublicHistory(tmp_path_factory.mktemp("other"))
    kept = (history.service.settings.data / FILE_NAME).read_bytes()
    (other.service.settings.data / FILE_NAME).write_bytes(kept)
    other.record(1, "btc-etf-stance")  # takes the first salt, so that all digests are others
    app = history.app
    stranger.check(stance(history, 1))
    try:
        for size, complaint in ((SIZE - 1, "cut"), (SIZE, "rewritten")):
            other.record(size)
            history.app = other.new_worker(base_url=stranger.base_url)
            done = stranger.check(stance(other, 1))
            expected = f"the history was {complaint} since the last check\n"
            assert (done.returncode, done.stderr) == (1, expected)
    finally:
        history.app = app
        other.close()


@pytest.mark.thorough
def test_the_page_s_code_refuses_a_kept_checkpoint_of_another_key(
    history: PublicHistory, stranger: Stranger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = PublicHistory(tmp_path_factory.mktemp("other"))
    other.record(SIZE)
    app = history.app
    stranger.check(stance(history, 1))
    try:
        history.app = other.new_worker(base_url=stranger.base_url)
        done = stranger.check(stance(other, 1))
    finally:
        history.app = app
        other.close()

    complaint = "the kept checkpoint is not signed by a key of this service\n"
    assert (done.returncode, done.stderr) == (1, complaint)


def test_the_page_s_code_follows_the_old_keys_to_the_new_one(
    history: PublicHistory, stranger: Stranger
) -> None:
    stranger.check(stance(history, 1))
    for _ in range(2):
        history.change_key(rotate_key, stranger.base_url)
    done = stranger.check(stance(history, 2))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"the first {SIZE} versions are the same as at the last check\n")


def test_the_page_s_code_recognises_a_new_origin_and_what_was_lost(
    history: PublicHistory, stranger: Stranger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    app, restored = history.app, PublicHistory(tmp_path_factory.mktemp("restored"))
    stranger.check(stance(history, 1))
    restored.service.settings.data.joinpath(FILE_NAME).write_bytes(
        history.service.settings.data.joinpath(FILE_NAME).read_bytes()
    )
    restored.record(2)
    try:
        history.app = restored.new_worker(base_url=stranger.base_url)
        kept_at_2 = history.ask("/api/history/checkpoint").json()["checkpoints"][2]["checkpoint"]
        restored.change_key(start_origin, stranger.base_url)
        restored.record(1, "btc-etf-stance")  # takes a salt, so that the next versions are others
        restored.record(4)
        done = stranger.check(stance(restored, 1))
        (name,) = re.findall(r"(\S+) has ended; both logs have the same first 2 ver", done.stdout)
        assert name == f"{stranger.base_url[7:]}/history/{RATES}"
        assert (done.returncode, done.stderr) == (1, f"the versions 3 to {SIZE} are lost\n")
        (stranger.folder / "kept.txt").write_text(kept_at_2, "utf-8")
        assert stranger.check(stance(restored, 1)).returncode == 0
    finally:
        history.app = app
        restored.close()


def test_the_page_names_every_address_of_the_history(history: PublicHistory) -> None:
    page = PAGE.read_text("utf-8")
    for rest in ("{kind}", "{kind}/events", "{kind}/proof", "{kind}/events/proof", "checkpoint"):
        assert f"`/api/history/{rest}`" in page
        assert history.ask(f"/api/history/{rest.replace('{kind}', RATES)}").status == 200

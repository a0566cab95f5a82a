"""The file that a subscriber keeps its references in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from barograph_client import ReferenceFile
from barograph_client.errors import ReferencesUnusable
from barograph_client.records import Reference

FIRST = Reference("rates-desk:2026-11-06T00:00:00.000Z", 1, "a" * 64, "2026-11-06T21:20:00.000Z")
SECOND = Reference("rates-desk:2026-11-06T00:00:00.000Z", 2, "b" * 64, "2026-11-06T21:30:00.000Z")


def shown(folder: Path) -> list[Path]:
    """What lies in a folder, besides the file by which one writer waits for another."""
    return sorted(each for each in folder.iterdir() if each.suffix != ".lock")


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    assert ReferenceFile(tmp_path / "absent").read() == {}
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_what_the_page_s_program_keeps(tmp_path: Path) -> None:
    file = tmp_path / "references.json"
    ReferenceFile(file).write({"rates-desk": FIRST})
    assert json.loads(file.read_bytes()) == {
        "rates-desk": {
            "leg_id": FIRST.leg_id,
            "revision": 1,
            "history_digest": FIRST.history_digest,
            "issued_at": FIRST.issued_at,
        }
    }


def test_only_its_owner_may_read_it_whatever_was_there_before(tmp_path: Path) -> None:
    file = tmp_path / "references.json"
    file.write_text("{}")
    file.chmod(0o644)
    mask = os.umask(0)
    try:
        ReferenceFile(file).write({"rates-desk": FIRST})
    finally:
        os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"rates-desk": {"leg_id": "x"}}', b"\xff", b'{"a": null}']
)
def test_a_file_with_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "references.json"
    file.write_bytes(content)
    with pytest.raises(ReferencesUnusable, match="move it away to start again"):
        ReferenceFile(file).read()
    assert file.read_bytes() == content


def test_a_place_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReferencesUnusable, match="can't be read"):
        ReferenceFile(tmp_path).read()
    with pytest.raises(ReferencesUnusable, match="can't be written"):
        ReferenceFile(tmp_path / "absent" / "references.json").write({})


def test_a_write_that_fails_leaves_what_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "references.json"
    prepared = ReferenceFile(file).prepare({"rates-desk": FIRST})
    (file / "inside").mkdir(parents=True)  # a folder that is not empty cannot be replaced
    with pytest.raises(ReferencesUnusable, match="can't be written"):
        prepared.take_place()
    assert shown(tmp_path) == [file]


def test_what_was_dropped_or_failed_lets_the_next_writer_in(tmp_path: Path) -> None:
    file = tmp_path / "references.json"
    store = ReferenceFile(file)
    store.prepare({"rates-desk": FIRST}).drop()
    file.write_text("mine")
    with pytest.raises(ReferencesUnusable):
        store.write({"rates-desk": FIRST})
    file.unlink()
    store.write({"rates-desk": SECOND})
    assert store.read() == {"rates-desk": SECOND}
    assert shown(tmp_path) == [file]


def test_a_writer_waits_until_the_one_before_it_is_done(tmp_path: Path) -> None:
    store = ReferenceFile(tmp_path / "references.json")
    first = store.prepare({"rates-desk": FIRST})
    second = Thread(target=store.write, args=({"funding-regime-stance": FIRST},))
    second.start()
    first.take_place()
    second.join(30)
    assert store.read() == {"rates-desk": FIRST, "funding-regime-stance": FIRST}


WRITER = """
import sys
from barograph_client import ReferenceFile
from barograph_client.records import Reference
for number in range(1, 21):
    digest, at = "a" * 64, "2026-11-06T21:20:00.000Z"
    kept = Reference("leg", number, digest, at)
    ReferenceFile(sys.argv[1]).write({f"{sys.argv[2]}-{number}": kept})
"""


@pytest.mark.thorough
def test_many_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "references.json"
    command = [sys.executable, "-c", WRITER, str(file)]
    writers = [subprocess.Popen([*command, name]) for name in ("one", "two", "three")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(ReferenceFile(file).read()) == 60

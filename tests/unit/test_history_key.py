"""The key that signs checkpoints."""

import stat
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.history.signing import FILE_NAME, load_history_key
from barograph.settings import Settings

GIVEN = bytes(range(32))


def settings(folder: Path, key: str = "") -> Settings:
    return Settings.model_validate({"data": folder, "history_key": key})


def loaded(folder: Path, key: str = "") -> bytes:
    return load_history_key(settings(folder, key)).private_bytes_raw()


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = loaded(tmp_path)

    assert loaded(tmp_path) == key == (tmp_path / FILE_NAME).read_bytes()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_two_instances_have_unlike_keys(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert loaded(tmp_path) != loaded(tmp_path / "other")


def test_the_setting_wins_and_makes_no_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, b64encode(GIVEN).decode()) == GIVEN
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["not base64!", "é", b64encode(bytes(31)).decode(), "A" * 43])
def test_a_setting_that_is_no_key_is_refused_without_being_repeated(
    tmp_path: Path, key: str
) -> None:
    with pytest.raises(ConfigurationError, match="must be 32 bytes in base64") as refused:
        loaded(tmp_path, key)
    assert key not in str(refused.value)


@pytest.mark.outcome(
    "Several processes create the checkpoint key at once",
    "All use the same key.",
)
def test_processes_that_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    text = (
        "import sys; from pathlib import Path\n"
        "from barograph.history.signing import load_history_key\n"
        "from barograph.settings import Settings\n"
        f"settings = Settings(data=Path({str(tmp_path)!r}))\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(load_history_key(settings).private_bytes_raw().hex())\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate(timeout=120)[0] for process in processes}

    assert found == {(tmp_path / FILE_NAME).read_bytes().hex() + "\n"}


def test_a_file_that_was_left_empty_is_filled(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch(0o644)
    assert len(loaded(tmp_path)) == 32
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    (tmp_path / FILE_NAME).chmod(0o600)
    with pytest.raises(ConfigurationError, match="damaged: restore the file of 32 bytes"):
        loaded(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_folder_that_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="or set BAROGRAPH_HISTORY_KEY"):
        loaded(tmp_path / "missing")

"""The secret that API keys are stored under."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.settings import Settings

GIVEN = "a pepper of at least 32 characters"


def settings(folder: Path, pepper: str = "") -> Settings:
    return Settings.model_validate({"data": folder, "key_pepper": pepper})


def test_a_pepper_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    pepper = load_pepper(settings(tmp_path))

    assert len(pepper) == 32
    assert load_pepper(settings(tmp_path)) == pepper == (tmp_path / PEPPER_FILE).read_bytes()
    assert stat.S_IMODE((tmp_path / PEPPER_FILE).stat().st_mode) == 0o600


def test_two_instances_have_unlike_peppers(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert load_pepper(settings(tmp_path)) != load_pepper(settings(tmp_path / "other"))


def test_the_setting_wins_and_makes_no_file(tmp_path: Path) -> None:
    assert load_pepper(settings(tmp_path, GIVEN)) == GIVEN.encode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.outcome(
    "Several processes create the API-key pepper at once",
    "All use the same pepper.",
)
def test_processes_that_start_at_once_get_the_same_pepper(tmp_path: Path) -> None:
    text = (
        "import sys; from pathlib import Path\n"
        "from barograph.keys.api_keys import load_pepper\n"
        "from barograph.settings import Settings\n"
        f"settings = Settings(data=Path({str(tmp_path)!r}))\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(load_pepper(settings).hex())\n"
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

    assert found == {(tmp_path / PEPPER_FILE).read_bytes().hex() + "\n"}


def test_a_file_that_was_left_empty_is_filled(tmp_path: Path) -> None:
    (tmp_path / PEPPER_FILE).touch(0o644)
    assert len(load_pepper(settings(tmp_path))) == 32
    assert stat.S_IMODE((tmp_path / PEPPER_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PEPPER_FILE).write_bytes(content)
    (tmp_path / PEPPER_FILE).chmod(0o600)
    with pytest.raises(ConfigurationError, match="damaged: restore the file of 32 bytes"):
        load_pepper(settings(tmp_path))
    assert (tmp_path / PEPPER_FILE).read_bytes() == content


def test_a_folder_that_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="or set BAROGRAPH_KEY_PEPPER"):
        load_pepper(settings(tmp_path / "missing"))

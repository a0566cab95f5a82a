"""The secrets that an instance keeps: the API-key pepper, the checkpoint and the webhook key."""

import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.errors import ConfigurationError
from barograph.history.signing import FILE_NAME, load_history_key
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.settings import Settings
from barograph.webhooks.keys import load_webhook_secret

GIVEN_PEPPER = "a pepper of at least 32 characters"
GIVEN_KEY = bytes(range(32))


def load_key(settings: Settings) -> bytes:
    return load_history_key(settings).private_bytes_raw()


class Secret(NamedTuple):
    """A secret, its file, and the setting that replaces the file."""

    file: str
    load: Callable[[Settings], bytes]
    setting: str
    given: str
    expected: bytes

    def loaded(self, folder: Path, given: str = "") -> bytes:
        return self.load(Settings.model_validate({"data": folder, self.setting: given}))


PEPPER = Secret(PEPPER_FILE, load_pepper, "key_pepper", GIVEN_PEPPER, GIVEN_PEPPER.encode())
KEY = Secret(FILE_NAME, load_key, "history_key", b64encode(GIVEN_KEY).decode(), GIVEN_KEY)
WEBHOOKS = KEY._replace(file="webhook-key", load=load_webhook_secret, setting="webhook_key")
ALL = [PEPPER, KEY, WEBHOOKS]
EACH_SECRET = pytest.mark.parametrize("secret", ALL, ids=["pepper", "history key", "webhook key"])


@EACH_SECRET
def test_a_secret_is_made_once_and_is_its_owners_only(secret: Secret, tmp_path: Path) -> None:
    first, file = secret.loaded(tmp_path), tmp_path / secret.file

    assert len(first) == 32
    assert secret.loaded(tmp_path) == first == file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.mkdir()
    (other / secret.file).touch(0o644)  # left empty
    assert secret.loaded(other) != first
    assert len(secret.loaded(other)) == 32
    assert stat.S_IMODE((other / secret.file).stat().st_mode) == 0o600


@EACH_SECRET
def test_the_setting_wins_and_makes_no_file(secret: Secret, tmp_path: Path) -> None:
    assert secret.loaded(tmp_path, secret.given) == secret.expected
    assert list(tmp_path.iterdir()) == []


def test_reloading_an_empty_key_file_creates_no_key(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch(0o600)  # a copy that has just begun
    with pytest.raises(ConfigurationError, match="damaged"):
        load_history_key(Settings(data=tmp_path), create=False)
    assert (tmp_path / FILE_NAME).read_bytes() == b""


@pytest.mark.parametrize("key", ["not base64!", "é", b64encode(bytes(31)).decode(), "A" * 43])
def test_a_bad_key_setting_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigurationError, match="must be 32 bytes in base64") as refused:
        KEY.loaded(tmp_path, key)
    assert key not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.outcome(
    "Several processes create the API-key pepper or the checkpoint key at once",
    "All use the same secret.",
)
def test_processes_that_start_at_once_get_the_same_secrets(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from test_secret_files import ALL\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"print([secret.loaded(Path({str(tmp_path)!r})).hex() for secret in ALL])\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parent)},
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
    loaded = {process.communicate(timeout=120)[0] for process in processes}

    assert loaded == {f"{[(tmp_path / secret.file).read_bytes().hex() for secret in ALL]}\n"}


@EACH_SECRET
@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_a_damaged_file_is_refused_and_kept(secret: Secret, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / secret.file
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="damaged: restore the file of 32 bytes"):
        secret.loaded(tmp_path)
    assert file.read_bytes() == content


@EACH_SECRET
def test_a_missing_folder_is_named_with_the_remedy(secret: Secret, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"or set BAROGRAPH_{secret.setting.upper()}"):
        secret.loaded(tmp_path / "missing")

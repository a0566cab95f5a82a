"""Output that cannot be written is one line and exit code 1, whatever the command."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "command",
    [("--help",), ("stances", "verify", "--help"), ("db", "upgrade", "--data", "here")],
    ids=["help", "stances", "db"],
)
def test_full_disk_prints_a_one_line_error(
    tmp_path: Path, command: tuple[str, ...], buffered: str
) -> None:
    with FULL.open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "barograph", *command],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )

    assert ended.returncode == 1
    assert ended.stderr == "barograph: can't write any more (No space left on device)\n"

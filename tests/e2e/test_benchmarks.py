"""Every benchmark still runs. What it measures is not judged here: tests assert no times."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]


def test_each_benchmark_runs_and_prints_its_figures() -> None:
    command = (sys.executable, "-m", "benchmarks", "--quick", "--rounds", "1")

    # Only a benchmark that hangs takes this long, even beside other tests on a slow machine.
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "Measured in" in done.stdout

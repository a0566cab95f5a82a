"""Figures of a running service, as ratios taken in one run; `README.md` says how."""

import sys
from pathlib import Path

# The tests know how to start PostgreSQL and Valkey.
sys.path.append(str(Path(__file__).parents[1] / "tests"))

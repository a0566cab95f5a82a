"""Every number of the public doors is what the simulated exchanges' own answers give."""

import subprocess
from pathlib import Path

import pytest

from e2e.recompute import Checker
from support.browsing import running_demo
from support.processes import BAROGRAPH, eventually, get

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


def test_numbers_are_the_exchanges_own_before_and_during_a_switch_of_venue(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        eventually(lambda: _has_settled_rates(demo.base_url), "settled rates of all venues", 180)
        checker = Checker(demo.base_url, demo.data)
        checker.check()
        command = [*BAROGRAPH, "demo", "fault", "bybit", "on", "--data", str(demo.data)]
        subprocess.run(command, check=True, capture_output=True)

        def is_switched() -> bool:
            reply = get(f"{demo.base_url}/api/agent/market")
            return reply is not None and "Hyperliquid" in reply.text

        eventually(is_switched, "another venue", 180)
        checker.check()

    assert not checker.comparison.differences, "\n".join(checker.comparison.differences)
    assert min(checker.comparison.compared.values()) > 0


def _has_settled_rates(base_url: str) -> bool:
    reply = get(f"{base_url}/api/v1/cross/BTC")
    rows = [] if reply is None or not reply.is_success else reply.json()["venues"]
    return bool(rows) and all(row["settledPct8h"] is not None for row in rows)

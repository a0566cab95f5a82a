"""Every number of the public doors is what the simulated exchanges' own answers give."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from e2e.recompute import Checker
from support.browsing import running_demo
from support.processes import BAROGRAPH, eventually, get

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.mark.parametrize(
    "returns", [False, pytest.param(True, marks=pytest.mark.long)], ids=["during", "after"]
)
def test_numbers_are_the_exchanges_own_around_a_switch_of_venue(
    tmp_path: Path, returns: bool
) -> None:
    with running_demo(tmp_path) as demo:
        eventually(lambda: _has_settled_rates(demo.base_url), "settled rates of all venues", 180)
        checker = Checker(demo.base_url, demo.data)
        checker.check()
        for state, venue in [("on", "Hyperliquid"), ("off", "simulated exchange")][: 1 + returns]:
            command = [*BAROGRAPH, "demo", "fault", "bybit", state, "--data", str(demo.data)]
            subprocess.run(command, check=True, capture_output=True)
            # The way back takes 15 minutes of health.
            eventually(partial(_is_in_use, demo.base_url, venue), venue, 20 * 60)
            checker.check()

    assert not checker.differences, "\n".join(checker.differences)
    assert min(checker.compared.values()) > 0


def _is_in_use(base_url: str, venue: str) -> bool:
    reply = get(f"{base_url}/api/agent/market")
    return reply is not None and reply.is_success and venue in reply.json()["source"]


def _has_settled_rates(base_url: str) -> bool:
    reply = get(f"{base_url}/api/v1/cross/BTC")
    rows = [] if reply is None or not reply.is_success else reply.json()["venues"]
    return bool(rows) and all(row["settledPct8h"] is not None for row in rows)

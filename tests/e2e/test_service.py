"""The live configuration as processes: `serve` and `collect`, pointed at the simulated exchange."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from barograph.kit.clock import system_clock
from barograph_demo.files import load_or_create_anchor
from support.processes import HOST, Process, answer_200, eventually, get, running, unused_port

pytestmark = pytest.mark.e2e


class Live(NamedTuple):
    base_url: str
    environment: dict[str, str]
    folder: Path

    @property
    def market(self) -> str:
        return f"{self.base_url}/api/agent/market"

    def collector(self, name: str) -> Process:
        return Process("collect", log=self.folder / name, **self.environment)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An exchange and two web workers; collectors are the tests' own."""
    folder = tmp_path_factory.mktemp("live")
    world, data = folder / "world", folder / "data"
    world.mkdir()
    load_or_create_anchor(world, 3, system_clock())
    port, exchange_port, mail_port = unused_port(), unused_port(), unused_port()
    environment = {
        "BAROGRAPH_DATA": str(data),
        "BAROGRAPH_PORT": str(port),
        "BAROGRAPH_WORKERS": "2",
        "BAROGRAPH_EXCHANGE_REST_URL": f"http://{HOST}:{exchange_port}",
        "BAROGRAPH_POLL_SECONDS": "0.3",
        # Long enough that another collector takes over in time, also on a busy machine.
        "BAROGRAPH_FEED_MAX_AGE_SECONDS": "20",
        "BAROGRAPH_ACCEPT_TERMS": "bybit",
    }
    ports = ("--port", str(exchange_port), "--mail-port", str(mail_port))
    exchange = ("demo", "world", *ports, "--data", str(world))
    with (
        running(*exchange, log=folder / "exchange.log"),
        running("serve", log=folder / "web.log", **environment),
    ):
        found = Live(f"http://{HOST}:{port}", environment, folder)
        eventually(lambda: answer_200(f"{found.base_url}/api/agent"), "the first answer")
        yield found


@pytest.mark.thorough
@pytest.mark.outcome(
    "The collector is killed",
    "The web workers serve until the freshness limit, then return 502. "
    "Another collector takes over.",
)
def test_second_collector_takes_over_from_a_killed_one(live: Live) -> None:
    first, second = live.collector("first.log"), live.collector("second.log")
    try:
        eventually(lambda: answer_200(live.market), "the first data")
        leader, follower = _by_role(first, second)
        leader.popen.kill()
        eventually(lambda: b"collector leads" in follower.log.read_bytes() or None, "a takeover")
        killed = time.monotonic()
        assert answer_200(live.market) is not None
        eventually(lambda: _is_newer_than(live, killed), "data of the second collector")
        follower.popen.kill()
        assert answer_200(live.market) is not None
        stale = eventually(lambda: _is_502(live.market), "the bound")
        assert list(stale.json()) == ["error"]
        # The collector reports a little later than the reading that it publishes.
        eventually(lambda: _collector_is_silent(live), "a collector that no longer reports")
    finally:
        first.end()
        second.end()


@pytest.mark.thorough
def test_every_worker_serves_every_live_perpetual(live: Live) -> None:
    with running("collect", log=live.folder / "all.log", **live.environment):
        eventually(
            lambda: all(answer_200(live.market) for _ in range(8)) or None, "data everywhere"
        )
        for symbol in ("BTC", "1000PEPE", "SHIB1000", "1000000BABYDOGE"):
            address = f"{live.base_url}/api/agent/derivatives?symbol={symbol}"
            bodies = [answer_200(address) for _ in range(4)]
            assert all(body is not None and body.json()["available"] for body in bodies)
        for filtered in ("BTCPERP", "BTCUSDC"):
            body = answer_200(f"{live.base_url}/api/agent/derivatives?symbol={filtered}")
            assert body is not None
            assert body.json()["available"] is False


@pytest.mark.contract("limits.signals.anonymous")
async def test_all_workers_share_one_allowance(live: Live) -> None:
    each_its_own = httpx2.Limits(max_connections=20, max_keepalive_connections=0)
    address = f"{live.base_url}/api/v1/signals"
    async with httpx2.AsyncClient(limits=each_its_own, timeout=60, trust_env=False) as client:
        answers = await asyncio.gather(*(client.get(address) for _ in range(200)))
    assert Counter(answer.status_code for answer in answers) == {200: 120, 429: 80}
    accepted = [answer for answer in answers if answer.status_code == 200]
    left = sorted(int(answer.headers["x-ratelimit-remaining"]) for answer in accepted)
    assert left == list(range(120))


def _by_role(first: Process, second: Process) -> tuple[Process, Process]:
    leads = [
        process for process in (first, second) if b"collector leads" in process.log.read_bytes()
    ]
    assert len(leads) == 1
    return leads[0], second if leads[0] is first else first


def _is_502(address: str) -> httpx2.Response | None:
    response = get(address)
    return response if response is not None and response.status_code == 502 else None


def _collector_is_silent(live: Live) -> bool | None:
    status = get(f"{live.base_url}/api/status")
    if status is None:
        return None
    checks = {check["name"]: check["status"] for check in status.json()["checks"]}
    assert status.json()["status"] == "down"
    return checks["collector"] == "degraded" or None


def _is_newer_than(live: Live, moment: float) -> bool | None:
    status = get(f"{live.base_url}/api/status")
    if status is None:
        return None
    age = status.json()["feed"]["age_seconds"]
    return (time.monotonic() - age > moment) or None

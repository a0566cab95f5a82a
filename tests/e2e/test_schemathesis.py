"""Schemathesis, a stranger's judge, finds no request that is answered otherwise than described."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph_demo.servers.identity import API_KEY, DEMO_USERS, demo_token
from support.comparisons import FLOWS, FUNDING, YIELDS, decided
from support.entitled_server import EntitledServer
from support.processes import eventually, get
from support.published_server import published_server

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

CONFIGURATION = Path(__file__).parent / "schemathesis.toml"
PROGRAM = Path(sys.executable).parent / "schemathesis"
NOBODY = "http://127.0.0.1:1"
OPEN = {
    "BAROGRAPH_SMTP_URL": "smtp://127.0.0.1:1",
    "BAROGRAPH_MAIL_FROM": "barograph@example.com",
    "BAROGRAPH_X402_FACILITATOR_URL": NOBODY,
    "BAROGRAPH_X402_ASSET": "0x" + "a5" * 20,
    "BAROGRAPH_X402_PAY_TO": "0x" + "be" * 20,
    "BAROGRAPH_ACCEPT_TERMS": "bybit,selling",
}
"""Registrations are taken and payments are asked for; nothing of either goes out."""


class Described(NamedTuple):
    base_url: str
    token: str
    folder: Path


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    """A service with fresh data, a record and a Feed subscriber."""
    folder = tmp_path_factory.mktemp("described")
    (folder / "subscribers").mkdir()
    subscribers = EntitledServer(folder / "subscribers")
    asyncio.run(_record(subscribers.folder / "data/history.sqlite3"))
    identity = {
        "BAROGRAPH_HISTORY_URL": f"sqlite:///{subscribers.folder}/data/history.sqlite3",
        "BAROGRAPH_IDENTITY": "supabase",
        "BAROGRAPH_IDENTITY_URL": subscribers.identity_url,
        "BAROGRAPH_IDENTITY_API_KEY": API_KEY,
    }
    with subscribers.provider(), published_server(folder, workers=1, **identity, **OPEN) as base:
        eventually(lambda: get(subscribers.identity_url), "the provider")
        _grant_feed(folder / "data")
        token = demo_token(
            subscribers.folder / "world", "feed", system_clock(), subscribers.identity_url
        )
        yield Described(base, token, folder)


@pytest.mark.contract("versioning.interface-description")
def test_no_request_is_answered_otherwise_than_described(described: Described) -> None:
    """What the contract wants otherwise than a check is in `schemathesis.toml`, with its reason."""
    report = described.folder / "report.json"
    done = subprocess.run(
        [
            *(str(PROGRAM), "--config-file", str(CONFIGURATION), "run"),
            *(f"{described.base_url}/openapi.json", "--report-json-path", str(report)),
        ],
        cwd=described.folder,
        env={**os.environ, "BEARER": described.token, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(report.read_text())
    asked = told["operations"]
    assert asked["tested"] == asked["selected"] == asked["total"] - 1 >= 40  # all but the stream
    assert {name: phase["status"] for name, phase in told["phases"].items()} == dict.fromkeys(
        ("examples", "coverage", "fuzzing", "stateful"), "success"
    )
    assert told["test_cases"]["generated"] > 1_200
    assert told["complete"] is True


async def _record(file: Path) -> None:
    """Two versions of each kind as its own rules make them."""
    history, now = SQLiteDatabase(file), system_clock()
    ledger = Ledger(history, system_clock)
    for proposed in (FUNDING, FLOWS, YIELDS):
        for version in (proposed, decided(proposed)):
            await ledger.append(replace(version, issued_at=now, expires_at=now + DAY))
    await history.close()


def _grant_feed(data: Path) -> None:
    holder = ("--user", DEMO_USERS["feed"], "--tier", "feed", "--days", "1")
    said = ("--why", "a test needs it", "--data", str(data))
    command = [sys.executable, "-m", "barograph", "entitlements", "grant", *holder, *said]
    subprocess.run(command, check=True, capture_output=True)

"""The official Python client against a server of two workers, which know nothing of each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from support.mcp_peer import says_the_same
from support.processes import eventually, get
from support.published_server import published_server

pytestmark = pytest.mark.e2e

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
ENDPOINTS = {
    "get_market_state": "/api/agent/market-state",
    "get_derivatives": "/api/agent/derivatives",
    "get_market": "/api/agent/market",
    "get_briefs": "/api/agent/briefs",
    "get_signals": "/api/v1/signals",
    "get_guides": "/api/agent/guides",
    "list_perpetuals": "/api/v1/perpetuals",
    "get_carry": "/api/v1/carry?limit=10",
    "get_events": "/api/v1/events?limit=20",
    "get_series": "/api/v1/series/funding?limit=200",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def base_url(folder: Path) -> Iterator[str]:
    with published_server(folder) as found:
        yield found


@pytest.mark.parametrize("era", ERAS)
async def test_the_client_finds_every_tool_and_gets_what_the_endpoints_give(
    base_url: str, era: str
) -> None:
    async with Client(f"{base_url}/api/mcp", mode=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        # The client holds each answer against the schema that the tool was listed with.
        answers = {name: await client.call_tool(name, {}) for name in names}
        assert client.protocol_version == ERAS[era]
    assert not any(each.is_error for each in answers.values())
    told: dict[str, Any] = {name: each.structured_content for name, each in answers.items()}
    assert told.pop("get_status")["status"] in {"ok", "degraded"}
    assert told.pop("get_cross_venue")["venues"][0]["venue"] == "bybit"
    assert set(told) == set(ENDPOINTS)
    for tool, path in ENDPOINTS.items():
        assert says_the_same(tool, told[tool], _json(base_url + path)), tool


@pytest.mark.outcome(
    "Requests of one MCP client reach different workers",
    "Every worker answers, because none keeps a session.",
)
def test_any_worker_answers_any_request(base_url: str) -> None:
    workers: set[str] = set()

    def both_seen() -> bool | None:
        workers.add(_call(base_url, "get_status")["structuredContent"]["api"]["started_at"])
        return len(workers) > 1 or None

    eventually(both_seen, "an answer of the other worker")


def test_workers_count_one_allowance_of_signals_together(base_url: str) -> None:
    said = [_call(base_url, "get_signals")["content"][1]["text"] for _ in range(6)]

    left = [int(each.partition(" ")[0]) for each in said]
    assert [left[0] - each for each in left] == list(range(6))
    answer = get(f"{base_url}/api/v1/signals")
    assert answer is not None
    assert int(answer.headers["x-ratelimit-remaining"]) == left[-1] - 1


def test_no_request_is_told_of_in_the_log(base_url: str, folder: Path) -> None:
    _call(base_url, "get_market")

    assert "mcp" not in (folder / "web.log").read_text()


def _call(base_url: str, tool: str) -> dict[str, Any]:
    """Call a tool of the handshake era without a handshake, over a connection of its own."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }
    answer = httpx2.post(
        f"{base_url}/api/mcp", json=message, headers=headers, timeout=20, trust_env=False
    )
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert isinstance(result, dict)
    return result


def _json(address: str) -> Any:
    answer = get(address)
    assert answer is not None
    return answer.json()

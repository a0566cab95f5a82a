"""Other people's suites and clients of the Model Context Protocol, against two workers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.mcp_peer import says_the_same
from support.node import LOCKED, MCP, SCRIPTS, X402, Ended, run_program, run_script
from support.published_server import published_server

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "get_briefs": ({"limit": 5}, "/api/agent/briefs?limit=5"),
    "get_derivatives": ({"symbol": "eth"}, "/api/agent/derivatives?symbol=eth"),
    "get_market": ({}, "/api/agent/market"),
    "get_market_state": ({}, "/api/agent/market-state"),
    "get_guides": ({}, "/api/agent/guides"),
    "get_signals": ({}, "/api/v1/signals"),
    "get_status": ({}, "/api/status"),
    "list_perpetuals": ({"limit": 2}, "/api/v1/perpetuals"),
    "get_cross_venue": ({"coin": "BTC"}, "/api/v1/cross/BTC"),
    "get_carry": ({}, "/api/v1/carry?limit=10"),
    "get_events": ({}, "/api/v1/events?limit=20"),
    "get_series": ({"measure": "price"}, "/api/v1/series/price?limit=200"),
}
MOVING = {"as_of", "age_seconds", "started_at", "uptime_seconds", "checks"}
"""What two answers of `/api/status` differ in."""


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with published_server(tmp_path_factory.mktemp("strangers"), workers=2) as address:
        yield address


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
def test_conformance_suite_finds_nothing_beyond_the_baseline(
    base_url: str, revision: str, tmp_path: Path
) -> None:
    baseline = ("--expected-failures", str(MCP / "baseline.yml"))
    target = ("--url", f"{base_url}/api/mcp", "--requirements", revision)
    done = run_program(
        *("conformance", "server", *target, *baseline, "-o", "found"), packages=MCP, home=tmp_path
    )
    assert done.returncode == 0, done.stdout.partition("Unexpected failures")[2] + done.stderr
    checks = _checks(tmp_path / "found")
    assert ("tools-list", "tools-list", "SUCCESS") in checks
    assert ("tools-list", "wire-schema-valid", "SUCCESS") in checks
    assert ("dns-rebinding-protection", "localhost-host-rebinding-rejected", "SUCCESS") in checks


def test_conformance_suite_agrees_with_how_headers_are_checked(
    base_url: str, tmp_path: Path
) -> None:
    # Not in the required set of any revision yet, so no exit code speaks for it.
    name = "http-header-validation"
    target = ("--url", f"{base_url}/api/mcp", "--scenario", name, "--spec-version", STATELESS)
    run_program("conformance", "server", *target, "-o", "found", packages=MCP, home=tmp_path)
    checks = _checks(tmp_path / "found")
    assert len(checks) > 3
    assert {status for _, _, status in checks} == {"SUCCESS"}


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_finds_no_fault_and_calls_a_tool(base_url: str, era: str, tmp_path: Path) -> None:
    done = _inspect(base_url, tmp_path, "tools/list", "--strict", "--protocol-era", era)
    assert (done.returncode, done.stderr) == (0, "")
    assert {tool["name"] for tool in json.loads(done.stdout)["tools"]} == set(TOOLS)
    called = ("--tool-name", "get_derivatives", "--tool-arg", "symbol=eth", "--protocol-era", era)
    done = _inspect(base_url, tmp_path, "tools/call", *called)
    assert done.returncode == 0, done.stderr
    tool, told = "get_derivatives", json.loads(done.stdout)["structuredContent"]
    assert says_the_same(tool, told, _body(base_url, TOOLS[tool][1]))


@pytest.mark.contract("mcp.address", "mcp.no-material-change-tool")
def test_typescript_clients_read_what_the_endpoints_say_and_what_was_wrong(base_url: str) -> None:
    calls = [{"name": name, "arguments": given} for name, (given, _) in TOOLS.items()]
    calls += [
        {"name": "get_derivatives", "arguments": {"symbol": "not a symbol"}},
        {"name": "material_change", "arguments": {}},
    ]
    expected = [_lasting(_body(base_url, path)) for _, path in TOOLS.values()]
    for visit in _visits(base_url, calls):
        assert visit["capabilities"] == {"tools": {"listChanged": False}}
        assert {tool["name"] for tool in visit["tools"]} == set(TOOLS)
        *answers, wrong, unknown = visit["answers"]
        for tool, answer, body in zip(TOOLS, answers, expected, strict=True):
            assert says_the_same(tool, _lasting(answer["structuredContent"]), body), tool
        assert not any(each["isError"] for each in answers)
        assert wrong["isError"]
        assert "symbol" in wrong["text"]
        assert unknown["code"] == -32602


@pytest.mark.parametrize("folder", [MCP, X402, SCRIPTS / "openapi"], ids=lambda folder: folder.name)
def test_npm_lock_of_the_suites_pins_by_hash_and_names_no_host(folder: Path) -> None:
    text = (folder / LOCKED[1]).read_text()
    packages: dict[str, dict[str, Any]] = json.loads(text)["packages"]
    assert not re.search(r"://|resolved|\bregistry", text)
    pinned = [each["integrity"] for name, each in packages.items() if name != ""]
    assert all(each.startswith("sha512-") for each in pinned)


def _inspect(base_url: str, home: Path, method: str, *arguments: str) -> Ended:
    target = ("--cli", f"{base_url}/api/mcp", "--transport", "http", "--method", method)
    return run_program("mcp-inspector", *target, *arguments, packages=MCP, home=home)


def _visits(base_url: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What two clients of each era saw, all at once."""
    given = {"url": f"{base_url}/api/mcp", "calls": calls, "clients": 2}
    given["eras"] = ["legacy", STATELESS]
    visits: list[dict[str, Any]] = run_script("mcp_client.mjs", given, packages=MCP)
    assert [visit["era"] for visit in visits] == ["legacy"] * 2 + [STATELESS] * 2
    return visits


def _checks(folder: Path) -> set[tuple[str, str, str]]:
    """Scenario, check and verdict of everything that was looked at."""
    return {
        (re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name), each["id"], each["status"])
        for file in folder.glob("*/checks.json")
        for each in json.loads(file.read_text())
    }


def _body(base_url: str, path: str) -> Any:
    return httpx2.get(base_url + path, timeout=10, trust_env=False).json()


def _lasting(body: Any) -> Any:
    """What a body says, but for when it was asked."""
    if "last_id" in body:  # the log of events was last read in a later minute
        return _without_moving(body)
    if "api" not in body:
        return body
    return {name: _without_moving(part) for name, part in body.items() if name not in MOVING}


def _without_moving(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name not in MOVING}

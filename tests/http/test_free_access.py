"""What all free endpoints have in common: no key is needed, and everything is JSON."""

import json
import re
from typing import Any

import pytest

from barograph import NOTICE
from support.service import AGENT_PATHS, JSON_PATHS, Service

API_PATHS = [path for path in JSON_PATHS if path.startswith("/api")]


def members(value: Any) -> set[str]:
    """The name of every member at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set().union(*map(members, value)) if isinstance(value, list) else set()


@pytest.mark.contract("service.json")
@pytest.mark.parametrize("path", JSON_PATHS)
def test_every_body_is_compact_utf8_json(market: Service, path: str) -> None:
    answer = market.ask(path)

    assert answer.headers["content-type"] == "application/json"
    compact = json.dumps(answer.json(), separators=(",", ":"), ensure_ascii=False)
    assert answer.body.decode("utf-8") == compact
    assert not re.search(rb"\b(NaN|Infinity)\b", answer.body)


@pytest.mark.contract("notice.market-endpoints", "notice.briefs-guides-signals", "index.notice")
@pytest.mark.parametrize(
    "target", [*API_PATHS, "/api/agent/derivatives?symbol=NOSUCH", "/api/agent/briefs?limit=50"]
)
def test_every_data_answer_carries_the_notice(market: Service, target: str) -> None:
    notice = market.ask(target).json()["notice"]

    assert notice == NOTICE == "Information only, not financial advice."


@pytest.mark.contract("versioning.agent-unmarked")
@pytest.mark.parametrize("path", ["/api/agent", *AGENT_PATHS])
def test_bodies_and_headers_under_api_agent_carry_no_version_marker(
    market: Service, path: str
) -> None:
    answer = market.ask(path)

    assert not {name for name in members(answer.json()) if "version" in name or "schema" in name}
    assert not {name for name in answer.headers if "version" in name}
    assert not re.search(rb"\bv[0-9]+\b", answer.body)
    for versioned in ("/api/v1/agent", "/api/agent/v1"):
        assert market.ask(path.replace("/api/agent", versioned)).status == 404


@pytest.mark.contract("free.read-only")
def test_reading_changes_nothing(market: Service) -> None:
    before = [market.ask(path) for path in API_PATHS]

    for path in 3 * API_PATHS:
        market.ask(path)
        market.refresh()

    assert [market.ask(path) for path in API_PATHS] == before


@pytest.mark.parametrize(
    "path", ["/api/agent/market", "/api/agent/market-state", "/api/agent/guides", "/api/status"]
)
def test_parameters_that_a_read_does_not_have_are_ignored(market: Service, path: str) -> None:
    query = "symbol=%ff&symbol=&limit=0&tag=risk&as_of=1970-01-01"

    assert market.ask(f"{path}?{query}") == market.ask(path)

"""`/openapi-gpt.json`: the keyless spec stays within the limits of GPT actions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from barograph.briefs.operator import MAX_HEADLINE, MAX_SLUG, MAX_SUMMARY
from barograph.briefs.records import Brief
from support.clock import START
from support.descriptions import operations, parts
from support.markets import BTC, changed, reading, shares
from support.pages import NOTE
from support.service import BASE_URL, Service, fresh_service

MAX_OPERATIONS = 30
MAX_TEXT = 300
"""Characters of a summary or description."""

MAX_PARAMETER_TEXT = 700
MAX_REPLY = 100_000
"""Characters of a response."""

FREE_READS = {
    *("/api/agent", "/api/agent/briefs", "/api/agent/derivatives", "/api/agent/market"),
    *("/api/agent/market-state", "/api/agent/guides", "/api/v1/signals", "/api/status"),
    "/api/v1/venues",
}
LISTS = {
    "/api/v1/perpetuals": "/api/v1/perpetuals?limit=100",
    "/api/v1/perpetuals/{symbol}": "/api/v1/perpetuals/BTC",
    "/api/v1/cross": "/api/v1/cross?limit=15",
    "/api/v1/cross/{coin}": "/api/v1/cross/BTC",
    "/api/v1/carry": "/api/v1/carry?limit=100",
    "/api/v1/listings": "/api/v1/listings?limit=100",
    "/api/v1/series/{measure}": "/api/v1/series/funding?limit=100",
    "/api/v1/liquidations": "/api/v1/liquidations?limit=100",
    "/api/v1/events": "/api/v1/events?limit=100",
    "/api/v1/briefs/{slug}": f"/api/v1/briefs/{'00'.ljust(MAX_SLUG, 's')}",
    "/api/v1/incidents": "/api/v1/incidents?limit=100&check=api",
}
"""Reads of many entries, with an example."""

PRIVATE_WORDS = ("material-change", "material_change", "-stance", "x402", "feed/now", "bearer")


_LONG_NAMES = ("BTC", *(f"1000000LONGNAME{number}" for number in range(110)))


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with fresh_service(tmp_path_factory.mktemp("gpt")) as service:
        service.keep_briefs(_longest_brief(0))
        yield service


@pytest.fixture(scope="module")
def spec(market: Service) -> dict[str, Any]:
    body: dict[str, Any] = market.ask("/openapi-gpt.json").json()
    return body


@pytest.mark.contract("gpt-actions.spec")
def test_the_spec_is_valid_openapi_3_1_at_one_address(spec: dict[str, Any]) -> None:
    assert spec["openapi"].startswith("3.1.")
    assert spec["info"]["version"] == "1.0.0"
    assert spec["servers"] == [{"url": BASE_URL}]
    assert BASE_URL.startswith("https://")
    validate(spec)


@pytest.mark.contract(
    "gpt-actions.spec", "auth.mcp-and-gpt-need-no-feed", "mcp.no-material-change-tool"
)
def test_the_spec_has_every_free_read_and_nothing_that_needs_a_credential(
    market: Service, spec: dict[str, Any]
) -> None:
    every = [operation for _, operation in operations(spec)]
    places = {each["in"] for operation in every for each in operation.get("parameters", ())}
    statuses = {status for operation in every for status in operation["responses"]}
    text = json.dumps(spec).lower()

    assert set(spec["paths"]) == FREE_READS | set(LISTS)
    assert all(list(item) == ["get"] for item in spec["paths"].values())
    assert not [operation for operation in every if "security" in operation]
    assert (spec["security"], "securitySchemes" in spec["components"]) == ([], False)
    assert places <= {"query", "path"}
    assert statuses == {"200", "400", "404", "429", "500", "502"}
    assert list(spec["paths"]["/api/v1/signals"]["get"]["responses"]) == ["200", "429"]
    assert [word for word in PRIVATE_WORDS if word in text] == []
    for path in (*FREE_READS, *LISTS.values()):
        assert market.ask(path).status == 200


def test_what_keeps_a_reply_short_is_required(spec: dict[str, Any]) -> None:
    required = {
        path: {
            each["name"]: each["schema"].get("maximum", 101) <= 100
            for each in operation.get("parameters", ())
            if each["required"] and each["in"] == "query"
        }
        for path, operation in operations(spec)
    }

    assert required["/api/v1/incidents"] == {"check": False, "limit": True}
    for path in (*LISTS, "/api/agent/briefs"):
        assert path.endswith(("{symbol}", "{coin}", "{slug}")) or required[path]["limit"], path


def test_texts_and_numbers_are_within_the_limits_of_an_action(spec: dict[str, Any]) -> None:
    found = operations(spec)

    assert len(found) <= MAX_OPERATIONS
    assert len({operation["operationId"] for _, operation in found}) == len(found)
    for path, operation in found:
        assert 0 < len(operation["description"]) <= MAX_TEXT, path
        assert 0 < len(operation["summary"]) <= MAX_TEXT
        for parameter in operation.get("parameters", ()):
            assert 0 < len(parameter["description"]) <= MAX_PARAMETER_TEXT


def test_every_object_names_its_members_and_every_reference_leads_somewhere(
    spec: dict[str, Any],
) -> None:
    every = list(parts(spec))
    objects = [part for part in every if part.get("type") == "object"]
    references = {part["$ref"] for part in every if isinstance(part.get("$ref"), str)}

    assert len(objects) > 10
    assert all(part["properties"] for part in objects)
    schemas = spec["components"]["schemas"]
    assert references == {f"#/components/schemas/{name}" for name in schemas}


def test_the_longest_responses_fit_the_limit_of_an_action(tmp_path: Path) -> None:
    with fresh_service(tmp_path) as service:
        service.keep_briefs(*(_longest_brief(number) for number in range(60)))
        contracts = (changed(BTC, contract=f"{name}USDT", base=name) for name in _LONG_NAMES)
        service.publish(reading(contracts=tuple(contracts)), shares())
        targets = [*(f"{path}?limit=50" for path in FREE_READS), *LISTS.values()]
        replies = {target: len(service.ask(target).body.decode()) for target in targets}

    assert replies["/api/agent/briefs?limit=50"] > 60_000
    assert replies["/api/v1/perpetuals?limit=100"] > 60_000
    assert all(length < MAX_REPLY for length in replies.values()), replies


@pytest.mark.parametrize(
    ("path", "target"), [*((each, each) for each in sorted(FREE_READS)), *LISTS.items()]
)
def test_responses_match_the_schemas_of_the_spec(
    market: Service, spec: dict[str, Any], path: str, target: str
) -> None:
    content = spec["paths"][path]["get"]["responses"]["200"]["content"]
    schema = {**content["application/json"]["schema"], "components": spec["components"]}

    OAS31Validator(schema).validate(market.ask(target).json())


def _longest_brief(number: int) -> Brief:
    """As long as a listed brief may be."""
    return NOTE._replace(
        slug=f"{number:02}".ljust(MAX_SLUG, "s"),
        published_at=START - number,
        category="data-quality",
        headline="h" * MAX_HEADLINE,
        coins=tuple("ABCDEFGHIJ"),
        summary="x" * MAX_SUMMARY,
    )

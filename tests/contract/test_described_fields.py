"""Every member that the contract names is in the described body, with its JSON type.

The names and types are written out here, so a member that is renamed or removed from a model is
noticed whatever else changed with it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from support.descriptions import operations
from support.service import fresh_service

ASSET = {
    "string": "symbol",
    "boolean": "available",
    "number": "lastPrice fundingRatePct openInterestUsd longAccountPct",
}
LIST = {"string": "source notice", "integer": "count"}
MEMBERS: dict[str, dict[str, str]] = {
    "Index": {"string": "name description site mcp notice", "object": "endpoints"},
    "EndpointEntry": {"string": "method path description"},
    "BriefBody": {"string": "headline category summary url publishedAt", "array": "coins"},
    "BriefList": {**LIST, "array": "briefs"},
    "PerpetualRecord": {**ASSET, "string": "source notice symbol", "integer": "nextFundingTime"},
    "AssetSnapshot": ASSET,
    "SourcedAssetSnapshot": {**ASSET, "string": "symbol source"},
    "Market": {"string": "source notice", "array": "assets"},
    "MarketState": {
        "string": "as_of source citation notice",
        "array": "assets",
        "object": "liq24h regime",
    },
    "Liq24h": {"boolean": "available", "number": "totalNotional longPct", "string": "topAsset"},
    "RegimeState": {"string": "label basis note"},
    "GuideEntry": {
        "string": "slug title description url",
        "array": "tags",
        "integer": "pages",
        "number": "price",
    },
    "Guides": {**LIST, "array": "guides"},
    "PublicSignals": {
        "boolean": "ok",
        "string": "version source updatedAt attribution docs",
        "array": "signals",
    },
    "SignalBody": {"string": "key name label value url"},
    "StanceVersion": {
        "string": "leg_id history_digest issued_at",
        "integer": "revision",
        "boolean": "history_durable",
    },
    "AssessmentBody": {
        "string": "status",
        "array": "numeric_changes",
        "object": "recorded_decisions evidence_field_presence",
        "boolean": "ready_for_paid_delivery",
    },
}
"""The names of each schema's members by their JSON type."""
ANSWERS = {
    "getIndex": "Index",
    "getBriefs": "BriefList",
    "getDerivatives": "PerpetualRecord",
    "getMarket": "Market",
    "getMarketState": "MarketState",
    "getGuides": "Guides",
    "getSignals": "PublicSignals",
    **dict.fromkeys(("getBtcEtfStance", "getRatesDesk", "getFundingRegime"), "StanceVersion"),
    "getMaterialChange": "Comparison",
}


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with fresh_service(tmp_path_factory.mktemp("fields")) as service:
        body: dict[str, Any] = service.ask("/openapi.json").json()
        return body


@pytest.mark.contract("fields.types")
@pytest.mark.parametrize("schema", MEMBERS)
def test_every_member_that_the_contract_names_is_described_with_its_type(
    description: dict[str, Any], schema: str
) -> None:
    assert list(problems(schema, description["components"]["schemas"])) == []


def test_operations_answer_with_the_schemas_that_are_checked(description: dict[str, Any]) -> None:
    bodies = {
        operation["operationId"]: operation["responses"]["200"]["content"]["application/json"]
        for _, operation in operations(description)
        if operation["operationId"] in ANSWERS
    }
    schemas = {name: body["schema"]["$ref"].rpartition("/")[2] for name, body in bodies.items()}

    assert schemas == ANSWERS


def problems(name: str, schemas: Mapping[str, Any]) -> Iterator[str]:
    schema = schemas[name]
    members = [(kind, each) for kind, names in MEMBERS[name].items() for each in names.split()]
    for kind, member in members:
        described = schema["properties"].get(member)
        if described is None:
            yield f"{name} has no {member}, which the contract names"
        elif types(described, schemas) - {"null"} != {kind}:
            yield f"{name}.{member} must be {kind}, as the contract says"
        elif member not in schema["required"] and member != "evidence_field_presence":
            yield f"{name}.{member} is always present and must be listed as required"


def types(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> set[str]:
    if "$ref" in schema:
        return types(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return {kind for each in schema["anyOf"] for kind in types(each, schemas)}
    return {schema["type"]}

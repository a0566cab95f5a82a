"""Every member that the contract names is in the described body, with its JSON type.

The names and types are written out here, so a member that is renamed or removed from a model is
noticed whatever else changed with it.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from support.descriptions import operations
from support.service import fresh_service

ASSET = {
    "symbol": "string",
    "available": "boolean",
    "lastPrice": "number",
    "fundingRatePct": "number",
    "openInterestUsd": "number",
    "longAccountPct": "number",
}
MEMBERS = {
    "Index": {
        "name": "string",
        "description": "string",
        "site": "string",
        "mcp": "string",
        "endpoints": "object",
        "notice": "string",
    },
    "EndpointEntry": {"method": "string", "path": "string", "description": "string"},
    "BriefBody": {
        "headline": "string",
        "category": "string",
        "coins": "array",
        "summary": "string",
        "url": "string",
        "publishedAt": "string",
    },
    "BriefList": {"source": "string", "notice": "string", "count": "integer", "briefs": "array"},
    "PerpetualRecord": {
        "source": "string",
        "notice": "string",
        **ASSET,
        "nextFundingTime": "integer",
    },
    "AssetSnapshot": ASSET,
    "SourcedAssetSnapshot": {**ASSET, "source": "string"},
    "Market": {"source": "string", "notice": "string", "assets": "array"},
    "MarketState": {
        "as_of": "string",
        "source": "string",
        "citation": "string",
        "notice": "string",
        "assets": "array",
        "liq24h": "object",
        "regime": "object",
    },
    "Liq24h": {
        "available": "boolean",
        "totalNotional": "number",
        "longPct": "number",
        "topAsset": "string",
    },
    "RegimeState": {"label": "string", "basis": "string", "note": "string"},
    "GuideEntry": {
        "slug": "string",
        "title": "string",
        "description": "string",
        "tags": "array",
        "pages": "integer",
        "price": "number",
        "url": "string",
    },
    "Guides": {"source": "string", "notice": "string", "count": "integer", "guides": "array"},
    "PublicSignals": {
        "ok": "boolean",
        "version": "string",
        "source": "string",
        "updatedAt": "string",
        "signals": "array",
        "attribution": "string",
        "docs": "string",
    },
    "SignalBody": dict.fromkeys(("key", "name", "label", "value", "url"), "string"),
    "StanceVersion": {
        "leg_id": "string",
        "revision": "integer",
        "history_digest": "string",
        "issued_at": "string",
        "history_durable": "boolean",
    },
    "AssessmentBody": {
        "status": "string",
        "numeric_changes": "array",
        "recorded_decisions": "object",
        "evidence_field_presence": "object",
        "ready_for_paid_delivery": "boolean",
    },
}
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


@pytest.mark.parametrize("schema", MEMBERS)
def test_a_member_that_is_removed_or_of_another_type_is_noticed(
    description: dict[str, Any], schema: str
) -> None:
    for member in MEMBERS[schema]:
        for changed in ({}, {member: {"type": "null"}}):
            schemas = deepcopy(description["components"]["schemas"])
            del schemas[schema]["properties"][member]
            schemas[schema]["properties"] |= changed
            assert list(problems(schema, schemas)) != [], member


def test_operations_answer_with_the_schemas_that_are_checked(description: dict[str, Any]) -> None:
    found = {
        operation["operationId"]: operation["responses"]["200"]["content"]["application/json"]
        for _, operation in operations(description)
        if operation["operationId"] in ANSWERS
    }

    assert {
        name: content["schema"]["$ref"].rpartition("/")[2] for name, content in found.items()
    } == ANSWERS


def problems(name: str, schemas: Mapping[str, Any]) -> Iterator[str]:
    schema = schemas[name]
    for member, kind in MEMBERS[name].items():
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

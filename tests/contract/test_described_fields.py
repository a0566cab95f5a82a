"""Every member that the contract names is in the described body, with the contract's JSON type.

The contract's tables and sentences are read, not copied, so a member that is renamed or removed
from a model is noticed here whatever else was changed with it.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.descriptions import operations
from support.service import fresh_service

CONTRACT = (Path(__file__).parent / "contract.md").read_text("utf-8")
TYPES = {
    **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")},
    "timestamp": "string",
    "opaque string": "string",
    "positive integer": "integer",
    "lowercase SHA-256 hex": "string",
    "ISO timestamp": "string",
    "a value abstained is possible": "string",
    "always false": "boolean",
}
"""The contract's words for a type, and the JSON type they mean."""

_MEMBER = re.compile(rf"(\w+) \(({'|'.join(sorted(TYPES, key=len, reverse=True))})\b")
_ROW = re.compile(r"^\| (\w+) \| (\w+)", re.MULTILINE)


class Place(NamedTuple):
    """Where the contract names members of a body, and the schema that must have them."""

    heading: str
    beginning: str
    """Of the sentence or row; empty: the whole table."""

    schema: str


PLACES = [
    Place("Index (response of GET /api/agent)", "", "Index"),
    Place("Index (response of GET /api/agent)", "| endpoints |", "EndpointEntry"),
    Place("Brief", "", "BriefBody"),
    Place("Brief", "Briefs list envelope:", "BriefList"),
    Place("Perpetual derivatives record (GET /api/agent/derivatives)", "", "PerpetualRecord"),
    *(
        Place("Asset snapshot (element of assets", "Fields:", schema)
        for schema in ("AssetSnapshot", "SourcedAssetSnapshot")
    ),
    Place(
        "Asset snapshot (element of assets", "In /api/agent/market-state", "SourcedAssetSnapshot"
    ),
    Place("Asset snapshot (element of assets", "/api/agent/market returns", "Market"),
    Place("Market state (GET /api/agent/market-state)", "", "MarketState"),
    Place("Market state (GET /api/agent/market-state)", "| liq24h |", "Liq24h"),
    Place("Market state (GET /api/agent/market-state)", "| regime |", "RegimeState"),
    Place("Guide (GET /api/agent/guides)", "Guide fields:", "GuideEntry"),
    Place("Guide (GET /api/agent/guides)", "Envelope:", "Guides"),
    Place("Public signals (GET /api/v1/signals)", "Envelope:", "PublicSignals"),
    Place("Public signals (GET /api/v1/signals)", "Signal object:", "SignalBody"),
    Place("Stance version", "A delivered stance version carries", "StanceVersion"),
    Place("Comparison result", "Known members of assessment:", "AssessmentBody"),
]
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
KNOWN = {"Index": 6, "BriefBody": 6, "PerpetualRecord": 9, "MarketState": 7, "GuideEntry": 7}


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with fresh_service(tmp_path_factory.mktemp("fields")) as service:
        body: dict[str, Any] = service.ask("/openapi.json").json()
        return body


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.schema}-{place.beginning}")
def test_every_member_that_the_contract_names_is_described_with_its_type(
    description: dict[str, Any], place: Place
) -> None:
    assert list(problems(place, description["components"]["schemas"])) == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.schema}-{place.beginning}")
def test_a_member_that_is_removed_or_of_another_type_is_noticed(
    description: dict[str, Any], place: Place
) -> None:
    for member, kind in named(place).items():
        for changed in [{}] if kind is None else [{}, {member: {"type": "null"}}]:
            schemas = deepcopy(description["components"]["schemas"])
            del schemas[place.schema]["properties"][member]
            schemas[place.schema]["properties"] |= changed
            assert list(problems(place, schemas)) != [], member


def test_the_contracts_tables_are_really_read() -> None:
    tables = {place.schema: len(named(place)) for place in PLACES if not place.beginning}

    assert tables | {"GuideEntry": len(named(PLACES[12]))} == KNOWN
    assert all(named(place) for place in PLACES)


def test_operations_answer_with_the_schemas_that_are_looked_at(
    description: dict[str, Any],
) -> None:
    found = {
        operation["operationId"]: operation["responses"]["200"]["content"]["application/json"]
        for _, operation in operations(description)
        if operation["operationId"] in ANSWERS
    }

    assert {
        name: content["schema"]["$ref"].rpartition("/")[2] for name, content in found.items()
    } == ANSWERS


def problems(place: Place, schemas: Mapping[str, Any]) -> Iterator[str]:
    schema = schemas[place.schema]
    for member, kind in named(place).items():
        described = schema["properties"].get(member)
        if described is None:
            yield f"{place.schema} has no {member}, which the contract names: {place.heading}"
        elif kind is not None and types(described, schemas) - {"null"} != {kind}:
            yield f"{place.schema}.{member} must be {kind}, as the contract says"
        elif member not in schema["required"] and member != "evidence_field_presence":
            yield f"{place.schema}.{member} is always there and must be promised"


def named(place: Place) -> dict[str, str | None]:
    """The members that a place names, each with its JSON type; None where the contract has none."""
    section = next(
        part
        for part in re.split(r"^#+ ", CONTRACT, flags=re.MULTILINE)
        if part.startswith(place.heading)
    )
    if not place.beginning:
        return {name: TYPES[kind] for name, kind in _ROW.findall(section) if kind in TYPES}
    start = section.index(place.beginning) + len(place.beginning)
    sentence = re.split(r"\.(?:\s|$)|\n", section[start:])[0]
    if place.schema == "AssessmentBody":
        return {
            each.split()[0]: TYPES.get((re.findall(r"\((.*)\)", each) or [""])[0])
            for each in sentence.strip().split(", ")
        }
    return {name: TYPES[kind] for name, kind in _MEMBER.findall(sentence)}


def types(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> set[str]:
    if "$ref" in schema:
        return types(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return {kind for each in schema["anyOf"] for kind in types(each, schemas)}
    return {schema["type"]}

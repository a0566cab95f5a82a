"""`/openapi.json` in detail: texts, examples, header fields, links."""

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from barograph.discovery.openapi import load_examples
from barograph.discovery.operations import FORMS, TEXTS
from support.descriptions import closed, operations, shop, validator
from support.service import BASE_URL, Service
from support.subscribers import ENTITLED_PATHS

Document = dict[str, Any]

MEDIA_TYPES = {
    *("application/json", "image/svg+xml", "text/csv", "text/markdown", "text/plain"),
    *("application/mcp-server-card+json", "application/ai-catalog+json"),
    *("application/gzip", "text/event-stream"),
    *("application/linkset+json", "application/atom+xml", "application/feed+json"),
}


@pytest.fixture(scope="module")
def description(market: Service) -> Document:
    return closed(market.ask("/openapi.json").json())


def test_a_wrong_key_is_described_with_the_fields_that_it_gets(
    description: Document, market: Service
) -> None:
    described = description["paths"]["/api/v1/signals"]["get"]["responses"]["401"]["headers"]
    answer = market.ask("/api/v1/signals", x_api_key="bg_wrong")

    assert answer.status == 401
    for name in ("WWW-Authenticate", "RateLimit-Policy", "RateLimit"):
        assert answer.headers[name.lower()] == described[name]["example"]


def test_every_operation_and_every_tag_is_described(description: Document) -> None:
    names = {operation["operationId"] for _, operation in operations(description)}
    badges = {f"{name}{form}" for name in TEXTS for form in FORMS if name.endswith("Badge")}

    tables = {name for name in names if name.endswith("Table")}

    assert names - tables == {name for name in TEXTS if not name.endswith("Badge")} | badges
    assert {name.removesuffix("Table") for name in tables} <= names
    assert all(operation["description"] for _, operation in operations(description))
    assert {tag["name"] for tag in description["tags"]} == {
        tag for _, operation in operations(description) for tag in operation["tags"]
    }


def test_every_described_answer_has_an_example_of_its_schema(description: Document) -> None:
    shown = 0
    for path, operation in operations(description):
        for status, response in operation["responses"].items():
            for media, content in response.get("content", {}).items():
                where = f"{path} {status}"
                assert "example" in content, f"{where}: run `python docs/examples.py`"
                schema = {**content["schema"], "components": description["components"]}
                found = OAS31Validator(schema).iter_errors(content["example"])
                assert [each.message for each in found] == [], where
                assert media in MEDIA_TYPES
                shown += 1
    assert shown > 130


def test_no_example_is_left_over(description: Document) -> None:
    described = {
        (operation["operationId"], status)
        for _, operation in operations(description)
        for status in operation["responses"]
    }
    parameters = {
        (operation["operationId"], parameter.get("name"))
        for _, operation in operations(description)
        for parameter in operation.get("parameters", ())
    }
    examples = load_examples(BASE_URL)

    assert _pairs(examples.answers) <= described
    assert _pairs(examples.parameters) <= parameters


def test_examples_carry_this_instances_address(description: Document) -> None:
    body = description["paths"]["/api/agent"]["get"]["responses"]["200"]["content"]
    example = body["application/json"]["example"]

    assert example["site"] == f"{BASE_URL}/"
    assert "{base_url}" not in json.dumps(description)


def required_fields(description: Document, response: dict[str, Any]) -> set[str]:
    headers = description["components"]["headers"]
    return {
        name.lower()
        for name, field in response["headers"].items()
        if (headers[name] if "$ref" in field else field).get("required")
    }


@pytest.mark.parametrize("status", ["401", "402", "405"])
def test_refusals_send_the_header_fields_that_are_promised(
    tmp_path: Path, description: Document, status: str
) -> None:
    service = shop(tmp_path)
    service.issue_all()
    fields = {"authorization": "Bearer nobodys"} if status == "401" else {}
    for path in ENTITLED_PATHS:
        answer = service.ask(path, "POST" if status == "405" else "GET", **fields)
        response = description["paths"][path]["get"]["responses"][status]
        assert str(answer.status) == status
        assert required_fields(description, response) <= answer.headers.keys()
        assert len(required_fields(description, response)) == 2
        validator(description, path, status).validate(answer.json())
    service.close()


def test_links_lead_to_operations_and_name_their_parameters(description: Document) -> None:
    parameters = {
        operation["operationId"]: {each.get("name") for each in operation.get("parameters", ())}
        for _, operation in operations(description)
    }
    links = [
        link
        for _, operation in operations(description)
        for link in operation["responses"].get("200", {}).get("links", {}).values()
    ]

    assert len(links) == 5
    assert all(link["parameters"].keys() <= parameters[link["operationId"]] for link in links)


def _pairs(nested: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    return {(outer, inner) for outer, members in nested.items() for inner in members}

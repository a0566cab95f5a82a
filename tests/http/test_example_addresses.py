"""The addresses in the examples, and the values that they fill in."""

from collections.abc import Iterator
from typing import Any

from barograph.discovery.openapi import DEMO_ADDRESS, load_examples
from support.service import BASE_URL, Service

LINKS = {"url", "href", "site", "docs", "mcp", "websiteUrl", "src"}


def links(value: Any) -> Iterator[str]:
    """Every address in a member whose name says so."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in LINKS and isinstance(each, str):
                yield each
            yield from links(each)
    elif isinstance(value, list):
        for each in value:
            yield from links(each)


FOUND = sorted(set(links(load_examples(BASE_URL).answers)))
OURS = [each for each in FOUND if each.startswith(BASE_URL)]


def test_every_address_of_this_instance_leads_somewhere(market: Service) -> None:
    for address in OURS:
        answer = market.ask(address.removeprefix(BASE_URL) or "/")
        # Doors that need a key, a payment or POST are there too, and say so.
        is_there = answer.status in {200, 401, 402, 405}
        assert is_there or answer.json()["error"] == "not_found", address


def test_pages_that_only_the_demo_had_are_not_said_to_be_here() -> None:
    folders = {each.removeprefix(BASE_URL).split("/")[1] for each in OURS if each != BASE_URL}

    assert not folders & {"briefs", "guides"}
    for folder in ("briefs", "guides"):
        assert any(each.startswith(f"{DEMO_ADDRESS}/{folder}/") for each in FOUND)


def test_no_optional_header_has_a_value_that_would_be_sent_unasked(market: Service) -> None:
    schema = market.ask("/openapi.json").json()
    shared = schema["components"]["parameters"].values()
    own = [
        parameter
        for item in schema["paths"].values()
        for operation in item.values()
        for parameter in operation.get("parameters", ())
        if "$ref" not in parameter
    ]
    headers = [each for each in (*shared, *own) if each["in"] == "header" and not each["required"]]

    assert {"If-None-Match", "X-API-Key"} <= {each["name"] for each in headers}
    for each in headers:
        assert not {"example", "examples"} & each.keys()
        assert not {"example", "examples", "default"} & each["schema"].keys()

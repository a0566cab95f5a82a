"""Every described parameter: what its schema refuses is refused, or its text says what happens."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from openapi_schema_validator import OAS31Validator

from support.descriptions import operations
from support.mcp_peer import MODERN, Peer
from support.service import Service, fresh_service

TOLD = ("clamped", "count as", "counts as", "means", "says so", "would not fit")
"""Words of a text about a value that is neither used as given nor refused."""

TEXTS = ("", " ", "x", "é", "x" * 40, "0", "-1", "1.5", "99999999999999999999")
VALUES: tuple[Any, ...] = (*TEXTS, 0, -1, 10**20, 1.5, True, ["x"], [1])
NAMES = {"kind": "rates-desk", "symbol": "BTC", "key": "funding-breadth", "measure": "funding"}


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with fresh_service(tmp_path_factory.mktemp("parameters")) as service:
        yield service


def accepts(schema: dict[str, Any], text: str) -> bool:
    """Whether a schema allows the text of a query parameter."""
    number = text.removeprefix("-")
    is_integer = number.isascii() and number.isdecimal()
    value = int(text) if is_integer and schema["type"] == "integer" else text
    return bool(OAS31Validator(schema).is_valid(value))


@pytest.mark.parametrize("document", ["/openapi.json", "/openapi-gpt.json"])
def test_a_value_that_a_schema_refuses_is_refused_unless_the_text_says_otherwise(
    market: Service, document: str
) -> None:
    tried = 0
    for path, operation in operations(market.ask(document).json()):
        queries = [each for each in operation.get("parameters", ()) if each.get("in") == "query"]
        required = {each["name"]: each.get("example", 1) for each in queries if each["required"]}
        if operation.get("security") or operation["tags"] == ["stream"]:
            continue
        target = path.format(**NAMES, coin="BTC", venue="bybit", slug="x", digest="0", day="x")
        for each in queries:
            beyond = {str(each["schema"]["maximum"] + 1)} if "maximum" in each["schema"] else set()
            for text in {*TEXTS, *beyond}:
                query = urlencode({**required, each["name"]: text})
                is_refused = market.ask(f"{target}?{query}").status in {400, 404}
                is_told = any(word in each["description"] for word in TOLD)
                tried += 1
                if not accepts(each["schema"], text):
                    assert is_refused or is_told, (path, each, text)
                elif text == "":
                    assert not is_refused, (path, each)
    assert tried > 150


def test_a_tool_takes_every_argument_that_its_schema_allows_and_refuses_the_rest(
    market: Service,
) -> None:
    peer, tried = Peer(market, MODERN), 0
    for tool in peer.result("tools/list")["tools"]:
        for name, schema in tool["inputSchema"]["properties"].items():
            for value in VALUES:
                is_error = peer.call(tool["name"], {name: value})["isError"]
                tried += 1
                if not OAS31Validator(schema).is_valid(value):
                    assert is_error, (tool["name"], name, value)
                elif value == "" or (name == "limit" and "clamped" in schema["description"]):
                    assert not is_error, (tool["name"], name, value)
    assert tried > 200

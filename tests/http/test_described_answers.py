"""Every described operation takes and sends exactly what it declares."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from openapi_schema_validator import OAS31Validator

from barograph.discovery.mcp_description import PROTOCOLS
from barograph.discovery.openapi import RATE_LIMIT
from barograph.markets.liquidation_files import DailyFile, store_file
from support.clock import START
from support.descriptions import closed, operations, shop
from support.events import STREAM, add_events, change
from support.mcp_peer import FIELDS, MODERN, PATH, Peer
from support.pages import NOTE
from support.service import Answer, Service, fresh_service
from support.stances import proposal
from support.subscribers import SubscriberService

CONTACT = "mailto:security@example.com"
EVERYWHERE = {
    *("content-type", "content-length", "content-encoding", "vary", "x-content-type-options"),
    "content-security-policy",  # of images
}
"""Fields of every body, which are not declared."""

CROSS_ORIGIN = "access-control-"
"""Fields of every free read, described once in the text of the document."""

RENDERED = {"series"}
FILE = DailyFile("2026-11-05", 0, 1, "ab" * 32, [])
MARKET_READS = ("/api/agent/derivatives", "/api/agent/market", "/api/agent/market-state")
DATED = {
    *MARKET_READS,
    *("/api/agent/briefs", "/api/v1/signals", "/api/status", "/api/v1/incidents"),
    *("/api/v1/perpetuals", "/api/v1/perpetuals.csv", "/api/v1/perpetuals/{symbol}"),
    *("/api/v1/cross", "/api/v1/cross.csv", "/api/v1/cross/{coin}"),
    *("/api/v1/carry", "/api/v1/carry.csv"),
    *("/api/v1/venues", "/api/v1/briefs/{slug}"),
    "/data/liquidations/{venue}/{day}.csv.gz",
}
LINKED = {"/api/agent", "/openapi.json", "/.well-known/api-catalog"}
COUNTED = {
    *("/api/v1/incidents", "/api/v1/events", "/api/v1/events/{digest}"),
    *("/api/v1/stances/{kind}", "/api/v1/briefs/{slug}"),
}
NAMES = {"kind": "rates-desk", "symbol": "BTC", "key": "funding-breadth", "measure": "funding"}
TOLD = ("clamped", "count as", "counts as", "means", "says so", "would not fit")
"""Words about the value of a parameter that is neither used as given nor refused."""

TRIED = ("", " ", "x", "é", "x" * 40, "0", "-1", "1.5", "99999999999999999999")
TEXTS = {"/llms.txt", "/llms-full.txt", "/robots.txt", "/.well-known/security.txt"}
METHODS = {
    "registerKey": "POST",
    "createWebhook": "POST",
    "rotateWebhookSecret": "POST",
    "deleteWebhook": "DELETE",
    "createAlert": "POST",
    "previewAlert": "POST",
    "changeAlert": "PATCH",
    "deleteAlert": "DELETE",
}


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with data for every free endpoint."""
    folder = tmp_path_factory.mktemp("described")
    with fresh_service(folder, security_contact=CONTACT) as service:
        service.keep_briefs(NOTE)
        asyncio.run(service.database.write(lambda tx: store_file(tx, "bybit", FILE, b"a", START)))
        asyncio.run(add_events(service.database, [change(1)]))
        ((NAMES["digest"],),) = service.rows("SELECT digest FROM events ORDER BY id DESC LIMIT 1")
        yield service


@pytest.fixture(scope="module")
def description(market: Service) -> dict[str, Any]:
    return closed(market.ask("/openapi.json").json())


def target(path: str) -> str:
    names = {"digest": "0"} | NAMES
    return path.format(**names, venue="bybit", day=FILE.day, coin="BTC", slug=NOTE.slug)


def sent(answer: Answer) -> set[str]:
    """The header fields that an answer should declare."""
    return {
        name
        for name in answer.headers
        if name not in EVERYWHERE and not name.startswith(CROSS_ORIGIN)
    }


def declared(operation: dict[str, Any], status: int) -> set[str]:
    return {name.lower() for name in operation["responses"][str(status)].get("headers", {})}


def is_free_read(operation: dict[str, Any]) -> bool:
    return "304" in operation["responses"]


def require_described(description: dict[str, Any], operation: dict[str, Any], got: Answer) -> None:
    """Check that a response has a described status, media type and body."""
    response = operation["responses"][str(got.status)]
    media = got.headers.get("content-type", "").partition(";")[0]
    described = response.get("content", {"": {}})
    assert list(described) == [media]
    if media.endswith("json"):
        schema = response["content"][media]["schema"]
        whole = {**schema, "components": description["components"]}
        assert [each.message for each in OAS31Validator(whole).iter_errors(got.json())] == []


@pytest.mark.parametrize(
    ("method", "status"), [("GET", 200), ("GET", 304), ("POST", 405), ("PUT", 405), ("DELETE", 405)]
)
def test_free_reads_send_exactly_the_header_fields_that_are_declared(
    market: Service, description: dict[str, Any], method: str, status: int
) -> None:
    found = {}
    for path, operation in operations(description):
        if is_free_read(operation):
            fields = {"if_none_match": "*"} if status == 304 else {}
            answer = market.ask(target(path), method, **fields)
            assert answer.status == status, path
            # These are where they are rendered.
            is_counted = not (RENDERED & {*operation["tags"]} or path in COUNTED)
            left_out = set() if is_counted else {each.lower() for each in RATE_LIMIT}
            assert sent(answer) - left_out == declared(operation, status) - left_out, path
            require_described(description, operation, answer)
            found[path] = sent(answer)
            is_public = answer.headers["cache-control"].startswith("public")
            assert not (is_public and "ratelimit" in answer.headers), path
    assert len(found) == 65
    dated = {path for path, fields in found.items() if "last-modified" in fields}
    linked = {path for path, fields in found.items() if "link" in fields}
    assert (dated, linked) == ((set(), set()) if status == 405 else (DATED, LINKED))


def test_a_rendered_download_has_rate_limit_fields_and_a_cached_one_has_none(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    limits = {each.lower() for each in RATE_LIMIT}
    with fresh_service(tmp_path) as service:
        for path, operation in operations(description):
            if "data" in operation["tags"]:
                rendered, kept = service.ask(target(path)), service.ask(target(path))
                assert sent(rendered) == declared(operation, 200) == sent(kept) | limits
                assert rendered.headers["cache-control"].startswith("private, max-age=5")
                assert kept.headers["cache-control"].startswith("public, max-age=5")
                assert not sent(kept) & limits


def test_other_described_endpoints_answer_as_declared(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    service = shop(tmp_path)
    service.issue_all()
    refused = {}
    for path, operation in operations(description):
        if not is_free_read(operation) and path not in {PATH, STREAM}:
            method = METHODS.get(operation["operationId"], "GET")
            answer = service.ask(path, method)
            sometimes = {"retry-after", "payment-response"}  # nothing was paid
            assert sent(answer) == declared(operation, answer.status) - sometimes, path
            require_described(description, operation, answer)
            refused[path] = answer.status
    service.close()
    assert refused.pop("/api/v1/keys") == 503
    assert sorted(refused.values()) == [*[401] * 8, *[402] * 6]


def test_a_subscriber_s_answers_send_the_header_fields_that_are_declared(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    service = SubscriberService(tmp_path)
    service.record(*(proposal(kind=kind) for kind in ("btc-etf-stance", "rates-desk")))
    for path in ("/api/feed/now", "/api/x402/btc-etf-stance", "/api/x402/rates-desk"):
        answer = service.read(path)
        assert answer.status == 200
        promised = declared(description["paths"][path]["get"], 200)
        assert sent(answer) == promised - {"payment-response"}  # nothing was paid
    service.close()


@pytest.mark.parametrize("path", ["/api/v1/keys", PATH])
def test_posts_declare_their_405(market: Service, description: dict[str, Any], path: str) -> None:
    operation = description["paths"][path]["post"]
    for method in ("GET", "PUT", "DELETE"):
        answer = market.ask(path, method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")
        assert sent(answer) == declared(operation, 405)
        require_described(description, operation, answer)


REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def require_mcp(description: dict[str, Any], answer: Answer, status: int) -> None:
    operation = description["paths"][PATH]["post"]
    assert answer.status == status
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert sent(answer) == declared(operation, status) == {"cache-control"}
    require_described(description, operation, answer)


@pytest.mark.parametrize(
    ("status", "body", "fields"),
    [
        (200, REQUEST, {}),
        (200, '{"jsonrpc":"2.0","id":"a","method":"no/such"}', {}),
        (202, '{"jsonrpc":"2.0","method":"notifications/initialized"}', {}),
        (400, "{", {}),
        (400, "[]", {}),
        (406, REQUEST, {"accept": "text/html"}),
        (413, " " * 20_000, {}),
        (415, REQUEST, {"content_type": "text/plain"}),
        (421, REQUEST, {"host": "elsewhere.example"}),
    ],
)
def test_mcp_answers_as_described(
    market: Service, description: dict[str, Any], status: int, body: str, fields: dict[str, str]
) -> None:
    answer = market.ask(PATH, "POST", body=body, **(FIELDS | fields))

    require_mcp(description, answer, status)


@pytest.mark.parametrize(
    ("status", "method", "fields"),
    [
        (200, "tools/call", {}),
        (400, "tools/call", {"mcp_method": "tools/list"}),
        (400, "tools/call", {"mcp_name": "get_signals"}),
        (404, "no/such", {}),
    ],
)
def test_the_newest_revision_is_answered_as_described(
    market: Service, description: dict[str, Any], status: int, method: str, fields: dict[str, str]
) -> None:
    answer = Peer(market, MODERN).send(method, {"name": "get_market"}, **fields)

    require_mcp(description, answer, status)


def test_the_mcp_example_works(market: Service, description: dict[str, Any]) -> None:
    operation = description["paths"][PATH]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]

    answer = market.ask(PATH, "POST", body=json.dumps(example), **FIELDS)

    assert answer.json()["result"]["isError"] is False
    assert answer.json()["id"] == example["id"]


def test_the_protocol_is_linked_to_its_specification_and_names_every_revision(
    market: Service, description: dict[str, Any]
) -> None:
    operation = description["paths"][PATH]["post"]
    version, *_, key = operation["parameters"]
    names = [parameter["name"] for parameter in operation["parameters"]]
    [remote] = market.ask("/api/mcp/server-card").json()["remotes"]

    assert operation["externalDocs"]["url"] == (
        f"https://modelcontextprotocol.io/specification/{MODERN}"
    )
    assert version["schema"]["enum"] == list(PROTOCOLS) == remote["supportedProtocolVersions"]
    assert names == ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "X-API-Key"]
    assert key["required"] is False
    assert operation["security"] == []


def test_a_file_that_an_instance_may_lack_declares_its_404(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    path = "/.well-known/security.txt"
    with fresh_service(tmp_path) as service:
        answer = service.ask(path)
    operation = description["paths"][path]["get"]

    assert answer.status == 404
    assert sent(answer) == declared(operation, 404)
    require_described(description, operation, answer)


def test_texts_and_the_parameters_of_a_badge_are_described(description: dict[str, Any]) -> None:
    found = {
        path
        for path, operation in operations(description)
        if "text/plain" in operation["responses"].get("200", {}).get("content", {})
    }
    parameters = description["paths"]["/badge/record.svg"]["get"]["parameters"]
    assert found == TEXTS
    assert [parameter.get("name") for parameter in parameters] == ["sinceDate", "style", None]


def test_the_checkpoint_example_says_that_it_is_of_a_demo(
    market: Service, description: dict[str, Any]
) -> None:
    operation = description["paths"]["/api/history/checkpoint"]["get"]
    body = operation["responses"]["200"]["content"]["application/json"]
    own = market.ask("/api/history/checkpoint").json()["checkpoint"]

    assert body["example"]["checkpoint"].startswith("demo.example/")
    assert "127.0.0.1" not in market.ask("/openapi.json").body.decode()
    assert own.startswith("barograph.example/")
    told = "The example has the log and key of a demo, not of this instance."
    assert told in operation["description"]


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose allowance of rendered reads the other tests have not used."""
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
    patient: Service, document: str
) -> None:
    tried = 0
    for path, operation in operations(patient.ask(document).json()):
        queries = [each for each in operation.get("parameters", ()) if each.get("in") == "query"]
        required = {each["name"]: each.get("example", 1) for each in queries if each["required"]}
        if operation.get("security") or operation["tags"] == ["stream"]:
            continue
        for each in queries:
            beyond = {str(each["schema"]["maximum"] + 1)} if "maximum" in each["schema"] else set()
            for text in {*TRIED, *beyond}:
                query = urlencode({**required, each["name"]: text})
                is_refused = patient.ask(f"{target(path)}?{query}").status in {400, 404}
                is_told = any(word in each["description"] for word in TOLD)
                tried += 1
                if not accepts(each["schema"], text):
                    assert is_refused or is_told, (path, each, text)
                elif text == "":
                    assert not is_refused, (path, each)
    assert tried > 150


def test_a_tool_takes_every_argument_that_its_schema_allows_and_refuses_the_rest(
    patient: Service,
) -> None:
    peer, tried = Peer(patient, MODERN), 0
    for number, tool in enumerate(peer.result("tools/list")["tools"]):
        peer = Peer(patient, MODERN, f"203.0.113.{number}")  # each address has an allowance
        for name, schema in tool["inputSchema"]["properties"].items():
            for value in (*TRIED, 0, -1, 10**20, 1.5, True, ["x"], [1]):
                is_error = peer.call(tool["name"], {name: value})["isError"]
                tried += 1
                if not OAS31Validator(schema).is_valid(value):
                    assert is_error, (tool["name"], name, value)
                elif value == "" or (name == "limit" and "clamped" in schema["description"]):
                    assert not is_error, (tool["name"], name, value)
    assert tried > 200

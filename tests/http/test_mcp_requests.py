"""Which requests `/api/mcp` accepts before the SDK sees them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.mcp_peer import FIELDS, HANDSHAKE, MODERN, PATH, Peer
from support.service import Answer, Service, ask, fresh_service

LONGEST = 16 * 1024
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose base address is on loopback."""
    folder = tmp_path_factory.mktemp("local")
    with fresh_service(folder, base_url="http://127.0.0.1:8080") as service:
        yield service


def post(service: Service, body: str = json.dumps(LIST), **fields: str) -> Answer:
    return service.ask(PATH, "POST", body=body, **(FIELDS | fields))


BASE = "barograph.example"
OTHER_HOSTS = [
    *("evil.example", "evil.example:443", "localhost", "127.0.0.1", ""),
    *(f"{BASE}.evil.example", f"{BASE}@evil.example", f"{BASE}/", f"{BASE}:", f"{BASE}:80"),
    *(f"{BASE}:8443", f"{BASE}:443:443"),
]


@pytest.mark.parametrize("host", [BASE, BASE.upper(), f"{BASE}:443"])
def test_the_host_of_the_base_address_is_accepted(market: Service, host: str) -> None:
    assert post(market, host=host).status == 200


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_another_host_is_421(market: Service, host: str) -> None:
    answer = post(market, host=host)

    assert answer.status == 421
    assert answer.json() == {"error": "the Host header must name the service's public address"}
    assert market.ask(PATH, "OPTIONS", host=host, origin="null").status == 421


def test_a_request_without_a_host_or_with_an_unknown_one_beside_it_is_421(market: Service) -> None:
    bare = {name: value for name, value in FIELDS.items() if name != "host"}

    assert market.ask(PATH, "POST", body=json.dumps(LIST), **bare).status == 421
    # Names of fields do not differ by case, so this is the same one twice.
    assert post(market, HOST="evil.example").status == 421


@pytest.mark.parametrize(
    "origin", ["https://barograph.example", "https://elsewhere.example", "http://localhost", "null"]
)
def test_pages_of_any_origin_may_call_without_credentials(market: Service, origin: str) -> None:
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "mcp-name"}
    preflight = market.ask(PATH, "OPTIONS", host=FIELDS["host"], origin=origin, **asked)
    answers = [
        preflight,
        post(market, origin=origin),
        post(market, "{", origin=origin),
        post(market, origin=origin, content_type="text/plain"),
        post(market, json.dumps(LIST | {"method": "no/such"}), origin=origin, cookie="session=1"),
    ]

    assert [each.status for each in answers] == [204, 200, 400, 415, 200]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
        assert "access-control-allow-private-network" not in answer.headers
    assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert preflight.headers["access-control-allow-headers"] == (
        "Content-Type, X-API-Key, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"
    )


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((f"{name}:8080", 200) for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]")),
        ("127.0.0.2:8080", 200),
        *((f"127.0.0.1{port}", 421) for port in ("", ":80", ":9000")),
        *((f"localhost{port}", 421) for port in ("", ":80", ":9000")),
        ("evil.example:8080", 421),
    ],
)
def test_on_loopback_every_loopback_name_is_accepted_with_the_port(
    local: Service, host: str, status: int
) -> None:
    assert post(local, host=host).status == status


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        *(("application/json", 200), ("application/json; charset=utf-8", 200)),
        *(("Application/JSON", 200), ("text/plain", 415), ("application/json-seq", 415)),
        *(("application/x-www-form-urlencoded", 415), ("", 415)),
    ],
)
@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
def test_only_json_bodies_are_accepted(
    market: Service, revision: str, content_type: str, status: int
) -> None:
    answer = Peer(market, revision).send("tools/list", {}, content_type=content_type)

    assert answer.status == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        *(("application/json", 200), ("*/*", 200), ("Application/JSON", 200)),
        *(("text/event-stream, application/*;q=0.5", 200), ("application/json;q=x", 200)),
        *(("application/json;q=0.001, */*;q=0", 200), ("application/json;q=0", 406)),
        *(("application/json; Q=0.0, */*", 406), ("*/*;q=0", 406), ("", 406)),
        *(("text/event-stream", 406), ("application/json-seq", 406)),
    ],
)
def test_accept_must_allow_json(market: Service, accept: str, status: int) -> None:
    answer = post(market, accept=accept)

    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
def test_accept_may_have_several_lines_or_be_missing(market: Service, revision: str) -> None:
    # Names of fields do not differ by case, so this is the same one twice.
    lines = {"accept": "text/event-stream", "ACCEPT": "application/json"}
    bare = {name: value for name, value in FIELDS.items() if name != "accept"}

    assert Peer(market, revision).send("tools/list", {}, **lines).status == 200
    assert market.ask(PATH, "POST", body=json.dumps(LIST), **bare).status == 200


@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
def test_a_body_is_accepted_up_to_the_limit(market: Service, revision: str) -> None:
    short = len(_padded(0))

    at_bound = post(market, _padded(LONGEST - short), mcp_protocol_version=HANDSHAKE[0])
    above = post(market, _padded(LONGEST - short + 1), mcp_protocol_version=revision)

    assert at_bound.status == 200
    assert above.status == 413
    assert above.json() == {"error": "the body may have at most 16,384 bytes"}


@pytest.mark.parametrize(("length", "sent"), [("9" * 5_000, b""), (None, b"x" * 16_385)])
def test_a_long_body_is_rejected_before_it_is_read_completely(
    market: Service, length: str | None, sent: bytes
) -> None:
    fields = [(name.replace("_", "-"), value) for name, value in FIELDS.items()]
    if length is not None:
        fields.append(("content-length", length))

    answer = ask(market.app, PATH, "POST", fields, body=sent, stalls=True)

    assert answer.status == 413
    assert answer.json() == {"error": "the body may have at most 16,384 bytes"}


@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
@pytest.mark.parametrize(
    "body",
    [
        *("", "{", "nope", json.dumps(LIST) + "}"),
        json.dumps(LIST)[:-1] + ', "params": {"a": ' + "[" * 99,
    ],
    ids=["empty", "begun", "word", "more", "deep"],
)
def test_a_body_that_is_not_json_is_a_parse_error(
    market: Service, revision: str, body: str
) -> None:
    answer = post(market, body, mcp_protocol_version=revision)

    assert answer.status == 400
    error = {"code": -32700, "message": "the body is not JSON"}
    assert answer.json() == {"jsonrpc": "2.0", "id": None, "error": error}


@pytest.mark.contract("briefs.limit.clamped")
@pytest.mark.parametrize(("sign", "limit"), [("", 50), ("-", 1)])
def test_a_limit_is_clamped_however_many_digits_it_has(
    market: Service, sign: str, limit: int
) -> None:
    called = {"name": "get_briefs", "arguments": {"limit": "digits"}}
    body = json.dumps(LIST | {"method": "tools/call", "params": called})

    answer = post(market, body.replace('"digits"', sign + "9" * 5_000))

    expected = market.ask(f"/api/agent/briefs?limit={limit}").json()
    assert answer.json()["result"]["structuredContent"] == expected


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999"])
def test_an_id_that_is_too_long_is_an_invalid_request(market: Service, number: str) -> None:
    answer = post(market, json.dumps(LIST).replace("7", number))

    assert (answer.status, answer.json()["id"]) == (400, None)
    assert answer.json()["error"]["code"] == -32600


@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
def test_nesting_is_accepted_up_to_the_limit(market: Service, revision: str) -> None:
    def nested(levels: int) -> dict[str, Any]:
        return {"name": "get_market", "arguments": {"x": json.loads("[" * levels + "]" * levels)}}

    peer = Peer(market, revision)
    at_bound, above = (peer.send("tools/call", nested(levels)) for levels in (62, 63))

    assert at_bound.json()["result"]["content"][0]["text"] == "get_market takes no arguments"
    assert above.status == 400
    error = {"code": -32600, "message": "the parameters are nested more than 64 levels deep"}
    assert above.json() == {"jsonrpc": "2.0", "id": 7, "error": error}


@pytest.mark.parametrize("values", ['"a":' + "[" * 9_999, '"a":[' + "[1,2]," * 1_000 + "1]}}}"])
def test_too_many_lists_are_rejected_before_decoding(market: Service, values: str) -> None:
    few, many = (
        post(market, json.dumps(LIST)[:-1] + ', "params": {"_meta": {' + each)
        for each in ('"a":[' + "{}," * 124 + "1]}}}", values)
    )

    assert few.status == 200
    error = {"code": -32600, "message": "the body has more than 128 lists and objects"}
    assert (many.status, many.json()["error"]) == (400, error)


@pytest.mark.parametrize("revision", [HANDSHAKE[0], MODERN])
@pytest.mark.parametrize(
    "message",
    [
        *([], [LIST], [LIST, LIST], "tools/list", 7, None, {}),
        *(LIST | {"jsonrpc": "1.0"}, LIST | {"id": None}, LIST | {"id": [7]}, LIST | {"method": 7}),
        *(LIST | {"params": [7]}, {"jsonrpc": "2.0", "id": 7, "result": {}}),
    ],
    ids=str,
)
def test_anything_but_one_message_is_an_invalid_request(
    market: Service, revision: str, message: Any
) -> None:
    answer = post(market, " " + json.dumps(message), mcp_protocol_version=revision)

    told = "the body must be one JSON-RPC 2.0 request or notification"
    if isinstance(message, list):
        told = "batches are not supported: send one JSON-RPC 2.0 request or notification at a time"
    assert answer.status == 400
    is_known = isinstance(message, dict) and message.get("id") == 7
    assert answer.json() == {
        "jsonrpc": "2.0",
        "id": 7 if is_known else None,
        "error": {"code": -32600, "message": told},
    }


def test_paths_below_the_endpoint_are_404(market: Service) -> None:
    for path in ("/api/mcp/tools", "/api/mcp//", "/api/mcps", "/api/MCP"):
        assert Peer(market, MODERN).post("tools/list", path=path).status == 404


def test_the_service_works_on_a_second_event_loop(service: Service) -> None:
    """Each request here has its own event loop, so the background task must restart."""
    for revision in (HANDSHAKE[0], MODERN, HANDSHAKE[0]):
        assert Peer(service, revision).post("tools/list").status == 200


def _padded(size: int) -> str:
    return json.dumps(LIST | {"params": {"_meta": {"x": "a" * size}}})

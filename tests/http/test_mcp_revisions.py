"""Ambiguous and unsupported protocol revisions at `/api/mcp`."""

import json
from typing import Any

import pytest

from support.mcp_peer import CLIENT, FIELDS, HANDSHAKE, MODERN, PATH, Peer
from support.service import Answer, Service

HEADER_MISMATCH = -32020
UNSUPPORTED = -32022
SPOKEN = [MODERN, *HANDSHAKE]
VERSION = "io.modelcontextprotocol/protocolVersion"
LIST = "tools/list"


def post(service: Service, header: str | None, inside: Any = None, method: str = LIST) -> Answer:
    """Send a request with one revision in its header and another in its `_meta`."""
    meta = {VERSION: inside, "io.modelcontextprotocol/clientCapabilities": {}}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method}
    if inside is not None:
        message["params"] = {"_meta": meta}
    named = {} if header is None else {"mcp_protocol_version": header, "mcp_method": method}
    return service.ask(PATH, "POST", body=json.dumps(message), **(FIELDS | named))


def error_of(answer: Answer) -> Any:
    assert answer.status == 400
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", 7)
    return body["error"]


@pytest.mark.parametrize("header", [None, *HANDSHAKE])
def test_without_meta_the_header_may_name_any_handshake_revision(
    market: Service, header: str | None
) -> None:
    assert post(market, header).status == 200


@pytest.mark.parametrize("header", ["2031-01-01", "2025-03-26", "latest", "2025-11-25x", ""])
@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("method", [LIST, "initialize"])
def test_an_unsupported_revision_is_rejected_with_the_supported_ones(
    market: Service, header: str, is_inside: bool, method: str
) -> None:
    error = error_of(post(market, header, header if is_inside else None, method))

    assert error == {
        "code": UNSUPPORTED,
        "message": "Unsupported protocol version",
        "data": {"supported": SPOKEN, "requested": header},
    }


@pytest.mark.parametrize(
    ("revision", "status"), [(HANDSHAKE[0], 202), (MODERN, 202), ("2031-01-01", 400)]
)
def test_a_notification_is_accepted_without_an_answer_if_its_revision_is_supported(
    market: Service, revision: str, status: int
) -> None:
    message = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    head = FIELDS | {"mcp_protocol_version": revision}

    answer = market.ask(PATH, "POST", body=message, **head)

    assert answer.status == status
    if status == 202:
        assert answer.body == b""
    else:
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, UNSUPPORTED)


@pytest.mark.outcome(
    "The header of an MCP request names a different protocol revision from its body",
    "400 with the protocol's own code (-32020).",
)
@pytest.mark.parametrize(
    ("header", "inside"),
    [
        *((each, MODERN) for each in HANDSHAKE),
        *((each, "2031-01-01") for each in (*SPOKEN, "2031-01-02")),
        *((MODERN, each) for each in HANDSHAKE),
        (None, MODERN),
        (HANDSHAKE[0], 7),
    ],
)
def test_a_header_that_differs_from_meta_is_a_mismatch(
    market: Service, header: str | None, inside: Any
) -> None:
    error = error_of(post(market, header, inside))

    assert error["code"] == HEADER_MISMATCH
    assert "mcp-protocol-version" in error["message"].lower()


@pytest.mark.parametrize("other", [HANDSHAKE[1], MODERN])
def test_two_headers_that_differ_are_a_mismatch(market: Service, other: str) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 7, "method": LIST})
    # Names of fields do not differ by case, so this is the same one twice.
    twice = {"mcp_protocol_version": HANDSHAKE[0], "MCP_PROTOCOL_VERSION": other}

    answer = market.ask(PATH, "POST", body=message, **(FIELDS | twice))

    assert error_of(answer)["code"] == HEADER_MISMATCH


@pytest.mark.contract("mcp.address", "mcp.protocol")
@pytest.mark.parametrize("meta", [{}, {"_meta": {VERSION: MODERN}}], ids=["plain", "meta"])
@pytest.mark.parametrize(
    ("requested", "given"), [*((each, each) for each in HANDSHAKE), ("2025-03-26", HANDSHAKE[0])]
)
def test_a_handshake_uses_the_requested_revision_whatever_meta_says(
    market: Service, requested: str, given: str, meta: dict[str, Any]
) -> None:
    """2025-03-26 is not offered: it requires batches."""
    params = {"protocolVersion": requested, "capabilities": {}, "clientInfo": CLIENT, **meta}
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}

    answer = market.ask(PATH, "POST", body=json.dumps(message), **FIELDS)

    result = answer.json()["result"]
    assert result["protocolVersion"] == given
    assert result["serverInfo"]["name"] == "barograph"
    assert list(result["capabilities"]) == ["tools"]
    assert "Information only, not financial advice." in result["instructions"]
    assert "mcp-session-id" not in answer.headers


def test_discovery_lists_the_supported_revisions(market: Service) -> None:
    result = Peer(market, MODERN).result("server/discover")

    assert result["supportedVersions"] == SPOKEN
    assert list(result["capabilities"]) == ["tools"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "barograph"
    assert "300 calls per minute and address, all tools together" in result["instructions"]


def test_a_newest_revision_request_without_its_meta_is_rejected(market: Service) -> None:
    assert error_of(post(market, MODERN))["code"] == -32602

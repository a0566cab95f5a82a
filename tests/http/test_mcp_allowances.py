"""The limits of tool calls; the signals tool shares its limit with the endpoint."""

import pytest

from barograph.mcp.tools import TOOLS
from support.mcp_peer import FIELDS, HANDSHAKE, MODERN, PATH, Peer
from support.service import Service

SIGNALS = "/api/v1/signals"
CALLS = 300
POSTS = 600
OTHER = "198.51.100.9"


@pytest.fixture(params=[MODERN, HANDSHAKE[0]])
def peer(request: pytest.FixtureRequest, service: Service) -> Peer:
    return Peer(service, request.param)


def left(service: Service, **headers: str) -> str:
    return service.ask(SIGNALS, **headers).headers["x-ratelimit-remaining"]


def test_the_signals_tool_and_endpoint_share_one_limit(peer: Peer) -> None:
    assert left(peer.service) == "119"

    said = peer.call("get_signals")["content"][1]["text"]

    assert said == ("118 of 120 signals requests are left; one more is available in 3600 seconds.")
    assert left(peer.service) == "117"
    assert left(peer.service, peer=OTHER) == "119"


@pytest.mark.parametrize("tool", ["get_market", "get_briefs", "get_guides", "get_status"])
def test_no_other_tool_counts_against_the_signals_limit_or_reads_a_key(
    peer: Peer, tool: str
) -> None:
    assert peer.call(tool)["isError"] is False
    assert peer.call(tool, x_api_key="unknown")["isError"] is False
    assert left(peer.service) == "119"


@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_a_used_up_signals_limit_is_a_tool_error_and_counts_nothing(peer: Peer) -> None:
    for _ in range(120):
        peer.service.ask(SIGNALS)

    assert peer.refusal("get_signals") == (
        "too many requests: 120 requests without a key are allowed in any hour; try again in 3600 "
        "seconds, or get a free key for 1,000 requests per hour with POST /api/v1/keys"
    )
    assert peer.call("get_market")["isError"] is False
    peer.service.clock.pass_seconds(3_600)
    assert left(peer.service) == "119"


def test_a_key_has_its_own_limit_and_an_invalid_one_none(peer: Peer) -> None:
    key = peer.service.create_key().key

    said = peer.call("get_signals", x_api_key=key)["content"][1]["text"]

    assert said.startswith("999 of 1,000 signals requests are left")
    assert left(peer.service, x_api_key=key) == "998"
    assert peer.refusal("get_signals", x_api_key="unknown").startswith("the API key is not valid")
    assert left(peer.service) == "119"


@pytest.mark.outcome(
    "The database is unavailable when an agent requests signals over MCP with a key",
    "The tool returns an error: retry, or leave the key out.",
)
def test_a_key_that_cannot_be_checked_is_a_tool_error(peer: Peer) -> None:
    key = peer.service.create_key().key
    peer.service.execute("ALTER TABLE api_keys RENAME TO away")

    assert peer.refusal("get_signals", x_api_key=key) == (
        "the key cannot be checked right now; try again in a few seconds, or leave X-API-Key out"
    )
    assert peer.call("get_signals")["isError"] is False


@pytest.mark.outcome(
    "An agent calls MCP tools in a loop",
    "After 300 calls per minute, an error says when to continue.",
)
@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_calls_are_counted_by_address_and_a_loop_is_stopped(service: Service) -> None:
    peer = Peer(service, MODERN)
    assert {peer.call("get_guides")["isError"] for _ in range(CALLS)} == {False}

    assert peer.refusal("get_guides") == (
        "too many requests: 300 tool calls from one address are allowed in any minute; "
        "try again in 60 seconds"
    )
    assert "too many requests" in peer.refusal("get_signals")
    assert left(service) == "119"
    assert Peer(service, MODERN, OTHER).call("get_guides")["isError"] is False
    assert len(peer.result("tools/list")["tools"]) == len(TOOLS)
    assert service.ask("/api/agent/guides").status == 200
    service.clock.pass_seconds(60)
    assert peer.call("get_guides")["isError"] is False


@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_every_post_is_counted_before_it_is_parsed(service: Service) -> None:
    fields = FIELDS | {"accept": "text/html"}  # the cheapest refusals count as well
    answers = [service.ask(PATH, "POST", body="{", **fields) for _ in range(POSTS)]

    spent = service.ask(PATH, "POST", body="{", **FIELDS)

    assert {each.status for each in answers} == {406}
    assert spent.status == 429
    assert spent.json() == {
        "error": "too many requests: 600 requests to the MCP server from one address are allowed "
        "in any minute; try again in 60 seconds"
    }
    assert spent.headers["retry-after"] == "60"
    assert spent.headers["ratelimit-policy"] == '"mcp-post";q=600;w=60'
    assert spent.headers["ratelimit"] == '"mcp-post";r=0;t=60'
    assert spent.headers["access-control-allow-origin"] == "*"
    assert service.ask(PATH, "OPTIONS", **FIELDS).status == 204
    assert Peer(service, MODERN, OTHER).call("get_guides")["isError"] is False
    service.clock.pass_seconds(60)
    assert Peer(service, MODERN).call("get_guides")["isError"] is False


@pytest.mark.parametrize("method", ["nope", "tools/call"])
def test_only_calls_of_existing_tools_count(service: Service, method: str) -> None:
    peer = Peer(service, MODERN)
    for _ in range(CALLS + 1):
        peer.send(method, {"name": "nope"})

    assert peer.call("get_guides")["isError"] is False

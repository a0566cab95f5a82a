"""`/api/mcp`: the free endpoints as tools, in all revisions of the protocol."""

import asyncio
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from barograph.briefs.records import Brief
from barograph.events.records import EVENT_TYPES, NewEvent
from barograph.events.store import append_events
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.regime import RegimeChange
from barograph.markets.store import record_rows
from barograph.mcp.tools import BY_NAME
from barograph.series.query import INTERVALS, MARKET_SERIES
from support.clock import START
from support.markets import reading, shares
from support.mcp_peer import FIELDS, HANDSHAKE, MODERN, PATH, Peer
from support.pages import NOTE
from support.service import Service, fresh_service

TOOLS = {
    "get_market_state": "/api/agent/market-state",
    "get_derivatives": "/api/agent/derivatives",
    "get_market": "/api/agent/market",
    "list_perpetuals": "/api/v1/perpetuals",
    "get_cross_venue": "/api/v1/venues",
    "get_carry": "/api/v1/carry?window=7d&limit=10",
    "get_briefs": "/api/agent/briefs",
    "get_signals": "/api/v1/signals",
    "get_guides": "/api/agent/guides",
    "get_status": "/api/status",
    "get_events": "/api/v1/events?limit=20",
    "get_series": "/api/v1/series/funding?limit=200",
}
MARKET_TOOLS = ("get_market_state", "get_derivatives", "get_market", "list_perpetuals")
ADDED = {"as_of", "statedFundingRatePct", "fundingIntervalHours"}
"""What `get_derivatives` and `get_market` tell beyond the body of their endpoint."""

MOST_TOKENS = 2_500
BYTES_A_TOKEN = 3.85
"""Of this list in o200k_base; other vocabularies need fewer tokens."""

HOUR_AGO, NOW = iso_timestamp(START - HOUR), iso_timestamp(START)
FULL_HOUR = START // HOUR * HOUR
EVENTS = [
    NewEvent("feed.down", START - 2 * DAY, "0", {"venue": "bybit", "feed": "market"}),
    NewEvent("feed.down", START, "1", {"venue": "bybit", "feed": "market"}),
    NewEvent("regime.changed", START + 1, "2", {"symbol": "BTC", "label": "neutral"}),
    NewEvent("feed.recovered", START + 2, "3", {"venue": "bybit", "feed": "market"}),
]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market that the tests here only read."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        service.keep_briefs(*(_brief(number) for number in range(20)))
        asyncio.run(service.database.write(lambda tx: append_events(tx, EVENTS)))
        for at in (FULL_HOUR, START):
            service.publish(reading(at))
        service.refresh()
        yield service


@pytest.fixture(params=[MODERN, HANDSHAKE[0]])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def peer(market: Service, revision: str) -> Peer:
    return Peer(market, revision)


@pytest.fixture
def caller(service: Service, revision: str) -> Peer:
    """A client of a service that the test may change."""
    return Peer(service, revision)


ONE_PAGE = "unknown cursor: all tools are on one page, so send no cursor"
INVALID = "Invalid request parameters: "


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("tools/call", {}, f"{INVALID}name is missing"),
        ("tools/call", {"name": 7}, f"{INVALID}name is not valid"),
        (
            "tools/call",
            {"name": "get_briefs", "arguments": [1]},
            f"{INVALID}arguments is not valid",
        ),
        ("tools/list", {"cursor": 7}, f"{INVALID}cursor is not valid"),
        *(("tools/list", {"cursor": cursor}, ONE_PAGE) for cursor in ("2", "")),
    ],
)
def test_an_invalid_parameter_is_a_protocol_error_that_names_it(
    market: Service, method: str, params: dict[str, Any], told: str
) -> None:
    answers = [Peer(market, HANDSHAKE[0]).send(method, params)]
    if params.get("name") != 7:  # which the newest revision would repeat in a header field
        answers.append(Peer(market, MODERN).send(method, params))

    assert [answer.status for answer in answers] == [200, 400][: len(answers)]
    for answer in answers:
        assert answer.json()["error"] == {"code": -32602, "message": told}


@pytest.mark.parametrize(
    "meta", [{"progressToken": []}, {"io.modelcontextprotocol/clientCapabilities": 7}]
)
def test_malformed_metadata_is_a_protocol_error(market: Service, meta: dict[str, Any]) -> None:
    revision = HANDSHAKE[0] if "progressToken" in meta else MODERN
    fields = FIELDS | {"mcp_protocol_version": revision, "mcp_method": "tools/call"}
    named = {"io.modelcontextprotocol/protocolVersion": MODERN} if revision == MODERN else {}
    params = {"name": "get_market", "_meta": meta | named}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    answer = market.ask(PATH, "POST", body=json.dumps(message), mcp_name="get_market", **fields)

    assert answer.json()["error"]["code"] == -32602


@pytest.mark.contract("mcp.no-material-change-tool")
def test_all_revisions_list_one_tool_for_each_free_endpoint_and_no_other(market: Service) -> None:
    older, newer = (Peer(market, each).result("tools/list") for each in (HANDSHAKE[0], MODERN))

    assert [tool["name"] for tool in older["tools"]] == list(TOOLS)
    assert older["tools"] == newer["tools"]
    assert not {"nextCursor"} & (older.keys() | newer.keys())
    assert (newer["cacheScope"], newer["ttlMs"]) == ("public", 3_600_000)
    assert newer == Peer(market, MODERN).result("tools/list")


def test_every_tool_has_a_title_a_description_and_schemas_in_few_tokens(market: Service) -> None:
    tools = Peer(market, MODERN).result("tools/list")["tools"]

    assert len(json.dumps(tools, separators=(",", ":"))) <= MOST_TOKENS * BYTES_A_TOKEN
    for tool in tools:
        assert tool["title"]
        assert tool["description"]
        assert tool["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert not {"anyOf", "oneOf", "allOf", "$schema"} & _keywords(tool["inputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        assert not {"$schema", "default"} & _keywords(tool["outputSchema"])


def test_the_series_tool_names_every_measure_and_interval() -> None:
    parameters = BY_NAME["get_series"].parameters

    assert set(MARKET_SERIES) <= set(re.findall(r"[a-z-]+", parameters["measure"]["description"]))
    assert parameters["interval"]["enum"] == list(INTERVALS)


@pytest.mark.parametrize(
    ("tool", "path"),
    [each for each in TOOLS.items() if each[0] not in {"list_perpetuals", "get_cross_venue"}],
)
def test_a_tool_answers_what_its_endpoint_answers(peer: Peer, tool: str, path: str) -> None:
    body = peer.service.ask(path).body

    result = peer.call(tool)

    assert result["isError"] is False
    told, whole = result["structuredContent"], json.loads(body)
    if tool in {"get_events", "get_series", "get_carry"}:
        assert told == {name: whole.get(name) for name in told}  # there is no `next_from`
    else:
        added = ADDED if tool in {"get_derivatives", "get_market"} else set()
        assert _without(added, told) == whole
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert len(result["content"]) == (2 if tool == "get_signals" else 1)


def test_a_perpetual_has_its_time_its_rate_per_8_hours_and_as_stated(peer: Peer) -> None:
    one = peer.call("get_derivatives", {"symbol": "1000PEPE"})["structuredContent"]
    snapshot = peer.call("get_market")["structuredContent"]

    names = ("fundingRatePct", "statedFundingRatePct", "fundingIntervalHours")
    assert [one[name] for name in names] == [0.01, 0.005, 4]
    assert one["as_of"] == snapshot["as_of"] == iso_timestamp(START)
    rates = [[each[name] for name in names] for each in snapshot["assets"]]
    assert rates == [[0.01, 0.01, 8], [-0.0125, -0.0125, 8], [0.0, 0.0, 8]]


@pytest.mark.parametrize(
    ("arguments", "symbols"),
    [
        ({}, ["BTC", "ETH", "1000PEPE", "SOL"]),
        ({"sort": "openInterest", "limit": 2}, ["BTC", "ETH"]),
        ({"sort": "funding", "limit": 3}, ["ETH", "BTC", "1000PEPE"]),
        ({"limit": 10**30}, ["BTC", "ETH", "1000PEPE", "SOL"]),
    ],
)
def test_perpetuals_are_sorted_and_cut_to_what_a_model_needs(
    peer: Peer, arguments: dict[str, Any], symbols: list[str]
) -> None:
    told = peer.call("list_perpetuals", arguments)["structuredContent"]

    assert [each["symbol"] for each in told["perpetuals"]] == symbols
    whole = peer.service.ask("/api/v1/perpetuals").json()
    known = {each["symbol"]: each for each in whole["perpetuals"]}
    assert all(each.items() <= known[each["symbol"]].items() for each in told["perpetuals"])
    assert told["as_of"] == whole["as_of"]


@pytest.mark.parametrize(
    ("arguments", "path"), [({}, "venues"), ({"coin": "bitcoin"}, "cross/BTC")]
)
def test_a_coin_and_the_venues_are_cut_to_what_a_model_needs(
    peer: Peer, arguments: dict[str, Any], path: str
) -> None:
    told = peer.call("get_cross_venue", arguments)["structuredContent"]
    whole = peer.service.ask(f"/api/v1/{path}").json()

    rows, every = told.pop("venues"), whole.pop("venues")
    assert told.items() <= whole.items()
    assert all(
        row[name] == full[name] for row, full in zip(rows, every, strict=True) for name in row
    )
    assert [each["state"] for each in rows] == ["ok"]
    assert peer.call("get_cross_venue", {"coin": "nosuch"})["isError"] is True


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ({"limit": 2}, "events?after=12"),
        ({"type": ["feed.down"], "limit": 1}, "events?after=11&limit=1"),
        ({"after": 0}, "events?limit=20"),
        ({"after": 1.0, "limit": 1}, "events?after=1&limit=1"),
        ({"since": iso_timestamp(START + 2)}, f"events?since={START + 2}"),
        ({"type": ["feed.down"], "after": 0, "limit": None}, "events?type=feed.down"),
        ({"symbol": "btc,ETH", "type": []}, "events?symbol=BTC,ETH"),
        ({"measure": "price", "symbol": "bitcoin"}, "series/price?symbol=bitcoin&limit=200"),
        ({"measure": "open-interest", "limit": 999}, "series/open-interest?limit=200"),
        ({"measure": "funding", "interval": "hour"}, "series/funding?interval=hour&limit=200"),
        *(
            ({"measure": "price", first: HOUR_AGO, last: NOW}, f"series/price?from={HOUR_AGO}")
            for first, last in (("from", "to"), ("start", "end"), ("start", "to"))
        ),
        ({"measure": "", "symbol": "", "from": "", "end": ""}, "series/funding?limit=200"),
    ],
)
def test_a_list_is_read_as_from_its_endpoint(
    peer: Peer, arguments: dict[str, Any], target: str
) -> None:
    tool, name = ("get_series", "points") if "measure" in arguments else ("get_events", "events")
    whole = peer.service.ask(f"/api/v1/{target}").json()

    told = peer.call(tool, arguments)["structuredContent"]

    assert told[name] == whole[name] != []


@pytest.mark.parametrize("measure", ["funding", "regime"])
def test_a_series_continues_where_it_ended(caller: Peer, measure: str) -> None:
    service = caller.service
    for at in range(FULL_HOUR + HOUR, FULL_HOUR + 5 * HOUR, HOUR):
        service.clock.now = at
        service.publish(reading(at))
        rows = [RegimeChange(at, "neutral", 0.0)]
        asyncio.run(
            service.database.write(partial(record_rows, venue="bybit", regime_changes=rows))
        )
    whole = caller.call("get_series", {"measure": measure})["structuredContent"]
    parts: list[Any] = []
    asked: dict[str, Any] = {"measure": measure, "limit": 2}
    while asked.get("from", "") is not None:
        part = caller.call("get_series", asked)["structuredContent"]
        parts += part["points"]
        asked |= {"from": part["next_from"]}

    assert parts == whole["points"]
    assert len(parts) > 2
    names = ("measure", "symbol", "venue", "interval_seconds")
    symbol, seconds = ("BTC", 3600) if measure == "funding" else (None, None)
    assert [whole[name] for name in names] == [measure, symbol, "bybit", seconds]


@pytest.mark.contract("auth.mcp-and-gpt-need-no-feed")
@pytest.mark.parametrize("tool", TOOLS)
def test_an_answer_is_as_the_tool_describes_it_whatever_the_credentials(
    peer: Peer, tool: str
) -> None:
    listed = peer.result("tools/list")["tools"]
    [described] = [each["outputSchema"] for each in listed if each["name"] == tool]
    answered = peer.call(tool)["structuredContent"]

    OAS31Validator.check_schema(described)
    OAS31Validator(described).validate(answered)
    assert set(described["required"]) == set(described["properties"]) == set(answered)
    for name, member in described["properties"].items():
        if "items" in member:
            entry = set(member["items"]["properties"])
            assert all(entry <= each.keys() for each in answered[name]), name
    with_junk = peer.call(tool, authorization="Bearer junk", payment_signature="junk")
    assert with_junk["structuredContent"] == answered


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        *(({"limit": 3}, "limit=3"), ({"limit": 3.0}, "limit=3"), ({"limit": None}, ""), ({}, "")),
        *(({"limit": 10**30}, "limit=50"), ({"limit": -1}, "limit=1")),
        *(
            ({"symbol": symbol}, f"symbol={symbol}")
            for symbol in ("ETH", "sol", "BTCUSDT", "1000PEPE", "NOSUCH")
        ),
    ],
)
def test_a_limit_is_clamped_and_a_symbol_understood_in_any_case(
    peer: Peer, arguments: dict[str, Any], query: str
) -> None:
    name = "derivatives" if "symbol" in arguments else "briefs"
    result = peer.call(f"get_{name}", arguments)

    body = peer.service.ask(f"/api/agent/{name}?{query}").json()
    assert _without(ADDED, result["structuredContent"]) == body


LIMIT = "limit must be an integer from 1 to 50"
SYMBOL = "symbol must be 1 to 15 letters or digits, such as BTC or BTCUSDT"
SORT = "sort must be one of openInterest, funding, change"
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "get_briefs": [
        *(({"limit": limit}, LIMIT) for limit in ("3", 1.5, True, [3])),
        ({"count": 3}, "get_briefs takes only limit"),
    ],
    "get_derivatives": [
        *(({"symbol": symbol}, SYMBOL) for symbol in ("", "A" * 16, "BTC-USD", "BTC\n")),
        *(({"symbol": symbol}, SYMBOL) for symbol in ("\u00df", "\u0131", 1, ["BTC"])),
    ],
    "get_events": [
        ({"after": "2"}, "after must be an integer"),
        ({"type": "feed.down"}, "type must be an array"),
        ({"type": ["x"]}, f"unknown type; the types are {', '.join(EVENT_TYPES)}"),
        ({"after": 1, "since": "2026-11-14"}, "give after or since, not both"),
    ],
    "get_series": [
        ({"symbol": 1}, "symbol must be a string"),
        ({"from": NOW, "start": NOW}, "give from or start, not both"),
        ({"to": NOW, "end": NOW}, "give to or end, not both"),
        ({"interval": "year"}, "interval must be one of minute, hour, 4h, day"),
    ],
    "list_perpetuals": [({"sort": "volume"}, SORT), ({"sort": 1}, SORT)],
    "get_market": [({"symbol": "BTC"}, "get_market takes no arguments")],
}


@pytest.mark.parametrize("tool", REFUSED)
def test_a_malformed_argument_is_a_tool_error_with_a_remedy(peer: Peer, tool: str) -> None:
    for arguments, sentence in REFUSED[tool]:
        assert peer.refusal(tool, arguments) == sentence, arguments


@pytest.mark.outcome(
    "The market feed is stale when an agent calls an MCP tool",
    "The tool returns an error and no stale number.",
)
def test_stale_data_is_a_tool_error_until_the_market_recovers(caller: Peer) -> None:
    service = caller.service
    service.clock.pass_seconds(31)

    for tool in MARKET_TOOLS:
        assert caller.refusal(tool) == (
            "upstream market data is unavailable or too old; try again shortly"
        )
    assert caller.call("get_status")["structuredContent"]["feed"]["status"] == "down"
    assert caller.call("get_guides")["isError"] is False
    service.publish(reading(service.clock()), shares(service.clock()))
    assert caller.call("get_market")["isError"] is False
    service.clock.pass_seconds(3_600)
    assert caller.refusal("get_briefs") == (
        "the record cannot be read at the moment; try again shortly"
    )


@pytest.mark.parametrize("name", ["nope", "", "get_material_change"])
def test_an_unknown_tool_is_a_protocol_error(peer: Peer, name: str) -> None:
    error = peer.send("tools/call", {"name": name}).json()["error"]

    assert error["code"] == -32602
    assert all(tool in error["message"] for tool in TOOLS)


@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "nope"])
def test_methods_that_are_not_advertised_do_not_exist(peer: Peer, method: str) -> None:
    params = {"level": "info"} if method == "logging/setLevel" else {}

    answer = peer.send(method, params)

    assert answer.status == (404 if peer.revision == MODERN else 200)
    assert (answer.json()["error"]["code"], answer.json()["id"]) == (-32601, 7)


def test_routes_answer_as_the_fast_path_does_and_a_trailing_slash_makes_no_difference(
    caller: Peer,
) -> None:
    expected = [caller.post("tools/list", path=path).body for path in (PATH, f"{PATH}/")]
    caller.service.app = caller.service.routes
    given = [caller.post("tools/list", path=path).body for path in (PATH, f"{PATH}/")]

    assert given == expected == [expected[0]] * 2


def _brief(number: int) -> Brief:
    return NOTE._replace(
        slug=f"brief-{number:03}",
        published_at=START - number,
        headline=f"Headline {number}",
        summary=f"Summary {number}.",
    )


def _without(names: set[str], part: Any) -> Any:
    """A body without these members, wherever they are."""
    if isinstance(part, list):
        return [_without(names, each) for each in part]
    if not isinstance(part, dict):
        return part
    return {name: _without(names, each) for name, each in part.items() if name not in names}


def _keywords(schema: Any) -> set[str]:
    """Every keyword of a schema, without the names of properties."""
    if isinstance(schema, list):
        return set().union(*map(_keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for keyword, value in schema.items():
        within = list(value.values()) if keyword == "properties" else value
        found |= _keywords(within)
    return found

"""A client that sends raw messages of the Model Context Protocol."""

import json
from typing import Any, NamedTuple

from support.service import PEER, Answer, Service

PATH = "/api/mcp"
MODERN = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2024-11-05")
FIELDS = {
    "host": "barograph.example",
    "content_type": "application/json",
    "accept": "application/json, text/event-stream",
}
CLIENT = {"name": "test", "version": "1"}

SHAPED = {
    *("get_derivatives", "get_market", "list_perpetuals", "get_cross_venue", "get_events"),
    *("get_series", "get_carry"),
}
"""Tools that say more than their endpoint, or less and in another order."""

_META = "io.modelcontextprotocol/"


class Peer(NamedTuple):
    """A client of one protocol revision."""

    service: Service
    revision: str
    address: str = PEER

    def post(self, method: str, /, *, path: str = PATH, **params: Any) -> Answer:
        """Send one request."""
        return self.send(method, params, path=path)

    def send(self, method: str, params: dict[str, Any], path: str = PATH, **fields: str) -> Answer:
        """Send one request with more header fields."""
        head = FIELDS | {"mcp_protocol_version": self.revision}
        if self.revision == MODERN:
            head |= {"mcp_method": method, "mcp_name": params.get("name", "")}
            meta = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": {}}
            params = params | {"_meta": {_META + name: value for name, value in meta.items()}}
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return self.service.ask(
            path, "POST", peer=self.address, body=json.dumps(message), **(head | fields)
        )

    def result(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        return _result(self.post(method, **params))

    def call(self, name: str, arguments: dict[str, Any] | None = None, **fields: str) -> Any:
        """The result of a tool call."""
        given = {} if arguments is None else {"arguments": arguments}
        return _result(self.send("tools/call", {"name": name, **given}, **fields))

    def refusal(self, name: str, arguments: dict[str, Any] | None = None, **fields: str) -> str:
        """The error message of a tool."""
        result = self.call(name, arguments, **fields)
        assert result["isError"] is True
        assert "structuredContent" not in result
        [block] = result["content"]
        return str(block["text"])


def says_the_same(tool: str, told: Any, body: Any) -> bool:
    """Whether a tool says what its endpoint says, as far as both say it if the tool is `SHAPED`."""
    if tool not in SHAPED:
        return bool(told == body)
    if isinstance(told, dict) and isinstance(body, dict):
        shared = told.keys() & body.keys()
        return bool(shared) and all(says_the_same(tool, told[name], body[name]) for name in shared)
    if isinstance(told, list) and isinstance(body, list):
        found = (any(says_the_same(tool, each, other) for other in body) for each in told)
        return bool(told) == bool(body) and all(found)
    return bool(told == body)


def _result(answer: Answer) -> dict[str, Any]:
    body = answer.json()
    assert (answer.status, body["jsonrpc"], body["id"]) == (200, "2.0", 7), body
    result = body["result"]
    assert isinstance(result, dict)
    return result

"""What is said about `/api/mcp` wherever the service describes itself (pure).

The door itself is built further up, and takes from here what it has to agree with.
"""

from typing import Any

from barograph.discovery.operations import MCP
from barograph.errors import BodyTimeout
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.wire import json_answer, json_content, refusal
from barograph.limits.rate_limits import MCP_POSTS

Schema = dict[str, Any]

PROTOCOLS = ("2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05")
"""The supported protocol revisions, newest first: in the card, in `server/discover` and here.

2025-03-26 is left out because it requires servers to accept batches.
"""

TOOL_NAMES = (
    "get_market_state",
    "get_derivatives",
    "get_market",
    "get_briefs",
    "get_signals",
    "get_guides",
    "get_status",
)
"""The tools in the order of their list."""

CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"

OPERATION_ID = "callMcp"

_SPECIFICATION = f"https://modelcontextprotocol.io/specification/{PROTOCOLS[0]}"
_VERSION = {"type": "string", "const": "2.0"}
_ID = [{"type": "integer"}, {"type": "string"}]

SCHEMAS: dict[str, Schema] = {
    "JsonRpcMessage": {
        "title": "JsonRpcMessage",
        "description": "A request, or without `id` a notification.",
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": _VERSION,
            "id": {"anyOf": _ID},
            "method": {"type": "string", "description": "Such as `tools/list` or `tools/call`."},
            "params": {"type": "object", "description": "What the method takes."},
        },
    },
    "JsonRpcAnswer": {
        "title": "JsonRpcAnswer",
        "description": "The `result` of a request, or its `error`.",
        "type": "object",
        "required": ["jsonrpc", "id"],
        "properties": {
            "jsonrpc": _VERSION,
            "id": {
                "anyOf": [*_ID, {"type": "null"}],
                "description": "That of the request; null where none could be read.",
            },
            "result": {"type": "object", "description": "By the method."},
            "error": {"$ref": "#/components/schemas/JsonRpcError"},
        },
        "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
    },
    "JsonRpcError": {
        "title": "JsonRpcError",
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer", "description": "One of JSON-RPC or of the protocol."},
            "message": {"type": "string"},
            "data": {"description": "More about it."},
        },
    },
}

_REFUSALS = {
    "406": "`Accept` has no application/json.",
    "413": f"The body is larger than {MAX_BODY_BYTES // 1024} KiB.",
    "415": "The body is not called application/json.",
    "421": "`Host` is not that of the base address.",
    "429": f"The address sent more than {MCP_POSTS.requests:,} requests in a minute.",
    "500": "Internal error.",
}


def mcp_operation() -> Schema:
    """The one operation of the door."""
    return {
        "tags": [MCP],
        "summary": "Speak the Model Context Protocol",
        "operationId": OPERATION_ID,
        "externalDocs": {"url": _SPECIFICATION, "description": "The protocol's specification"},
        "parameters": _PARAMETERS,
        "requestBody": {"required": True, "content": json_content("JsonRpcMessage")},
        "responses": {
            "200": _answer("The answer to a request, also where it is an error."),
            "202": {"description": "A notification was noted."},
            "400": _answer(
                "No message, none of a revision that is spoken, or one that its header fields or "
                "the parameters of its method do not fit."
            ),
            "404": _answer(f"No such method; {PROTOCOLS[0]} only, before it that is in a 200."),
            "408": refusal("The body did not arrive in time.", example=BodyTimeout().message),
            **{status: refusal(text) for status, text in _REFUSALS.items()},
        },
    }


def _answer(description: str) -> Schema:
    return json_answer(description, "JsonRpcAnswer")


def _field(name: str, description: str, **schema: object) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


_PARAMETERS: list[Schema] = [
    _field(
        "MCP-Protocol-Version",
        f"The revision that is spoken; required from {PROTOCOLS[0]} on, the same as in `_meta`.",
        enum=list(PROTOCOLS),
    ),
    _field("Mcp-Method", f"The `method` of the body; required from {PROTOCOLS[0]} on."),
    _field(
        "Mcp-Name",
        f"The `name` of the tool in a `tools/call`; required there from {PROTOCOLS[0]} on.",
    ),
    _field("X-API-Key", "A personal key, which raises the allowance of the signals tool."),
]

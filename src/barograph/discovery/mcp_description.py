"""How the service describes its MCP server: in OpenAPI and in files that clients look for (pure).

- the server card: SEP-2127, MCP Server Cards
- the AI catalog, which links to it: https://agenticresourcediscovery.org/spec/
- `server.json`: the entry for the MCP registry

`barograph.mcp` implements what is described here.
"""

import json
from typing import Any
from urllib.parse import urlsplit

from barograph import __version__
from barograph.discovery.operations import MCP
from barograph.errors import BodyTimeout
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.wire import Schema, json_answer, json_content, parameter, refusal
from barograph.limits.rate_limits import MCP_POSTS

MCP_PATH = "/api/mcp"
CARD_PATH = f"{MCP_PATH}/server-card"
REGISTRY_PATH = f"{MCP_PATH}/server.json"
CATALOG_PATH = "/.well-known/ai-catalog.json"
FORMER_CARD_PATH = "/.well-known/mcp/server-card.json"
"""The card's path in earlier drafts, which many clients still use."""

CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
ICON_PATH = "/static/icon.svg"

PROTOCOLS = ("2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05")
"""The supported protocol revisions, newest first.

2025-03-26 is left out because it requires servers to accept batches.
"""

TOOL_NAMES = (
    "get_market_state",
    "get_derivatives",
    "get_market",
    "list_perpetuals",
    "get_cross_venue",
    "get_carry",
    "get_briefs",
    "get_signals",
    "get_guides",
    "get_status",
    "get_events",
    "get_series",
)
"""In the order of the tool list."""

NAME = "barograph"
TITLE = "Barograph"
DESCRIPTION = (
    "Crypto perpetuals, funding regime, briefs and signals: measured, recorded, free, keyless."
)

_CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_KEY_FIELD = {
    "name": "X-API-Key",
    "description": "A free personal key, which raises the hourly limit of get_signals.",
    "isRequired": False,
    "isSecret": True,
}


def server_card(base_url: str) -> bytes:
    """The server card."""
    remote = {**_remote(base_url), "supportedProtocolVersions": list(PROTOCOLS)}
    return _encode({"$schema": _CARD_SCHEMA, **_identity(base_url), "remotes": [remote]})


def registry_entry(base_url: str, repository_url: str = "") -> bytes:
    """The `server.json` that an operator submits to the MCP registry."""
    entry = {"$schema": _REGISTRY_SCHEMA, **_identity(base_url), "remotes": [_remote(base_url)]}
    if repository_url:
        # The registry's names of hosts: `github` for github.com.
        host = urlsplit(repository_url).hostname or ""
        source = host.rpartition(".")[0].rpartition(".")[2] or host
        entry["repository"] = {"url": repository_url, "source": source}
    return _encode(entry)


def ai_catalog(base_url: str) -> bytes:
    """The AI catalog, which has one entry: the server card."""
    entry = {
        "identifier": f"urn:air:{_publisher(base_url)}:mcp:{NAME}",
        "displayName": TITLE,
        "type": CARD_TYPE,
        "url": base_url + CARD_PATH,
        "representativeQueries": [  # registries search by them
            "What is the funding rate of BTC perpetuals now?",
            "Which perpetuals have the largest open interest?",
        ],
    }
    return _encode({"specVersion": "1.0", "entries": [entry]})


def icons(base_url: str) -> list[dict[str, str]]:
    """The icon of the service."""
    return [{"src": base_url + ICON_PATH, "mimeType": "image/svg+xml"}]


def _identity(base_url: str) -> dict[str, Any]:
    namespace = ".".join(reversed(_publisher(base_url).split(".")))
    return {
        "name": f"{namespace}/{NAME}",
        "title": TITLE,
        "description": DESCRIPTION,
        "version": __version__,
        "websiteUrl": base_url + "/",
        "icons": icons(base_url),
    }


def _remote(base_url: str) -> dict[str, Any]:
    return {"type": "streamable-http", "url": base_url + MCP_PATH, "headers": [_KEY_FIELD]}


def _publisher(base_url: str) -> str:
    """The domain of the instance, or `localhost` if its host is an IP address or a bare name."""
    host = urlsplit(base_url).hostname or ""
    return host if "." in host and not host[-1].isdecimal() else "localhost"


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


OPERATION_ID = "callMcp"

_VERSION = {"type": "string", "const": "2.0"}
_ID = [{"type": "integer"}, {"type": "string"}]

SCHEMAS: dict[str, Schema] = {
    "JsonRpcMessage": {
        "title": "JsonRpcMessage",
        "description": "A request, or a notification if it has no `id`.",
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": _VERSION,
            "id": {"anyOf": _ID},
            "method": {"type": "string", "description": "Such as `tools/list` or `tools/call`."},
            "params": {"type": "object", "description": "The parameters of the method."},
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
                "description": "The `id` of the request; null if it could not be read.",
            },
            "result": {"type": "object", "description": "Depends on the method."},
            "error": {"$ref": "#/components/schemas/JsonRpcError"},
        },
    },
    "JsonRpcError": {
        "title": "JsonRpcError",
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer", "description": "A code of JSON-RPC or of MCP."},
            "message": {"type": "string"},
            "data": {"description": "Details."},
        },
    },
}


def mcp_operation() -> Schema:
    """The operation of `POST /api/mcp`."""
    return {
        "tags": [MCP],
        "operationId": OPERATION_ID,
        "externalDocs": {
            "url": f"https://modelcontextprotocol.io/specification/{PROTOCOLS[0]}",
            "description": "The protocol's specification",
        },
        "parameters": _PARAMETERS,
        "requestBody": {"required": True, "content": json_content("JsonRpcMessage")},
        "responses": {
            "200": _answer("The response to a request, including JSON-RPC errors."),
            "202": {"description": "The notification was accepted."},
            "400": _answer(
                "The body is not a valid message, uses an unsupported revision, or doesn't match "
                "its headers or the method's parameters."
            ),
            "404": _answer(
                f"Unknown method (revision {PROTOCOLS[0]} only; earlier revisions return 200)."
            ),
            "408": refusal("The body did not arrive in time.", example=BodyTimeout().message),
            "406": refusal("`Accept` does not allow application/json."),
            "413": refusal(f"The body is larger than {MAX_BODY_BYTES // 1024} KiB."),
            "415": refusal("The Content-Type is not application/json."),
            "421": refusal("`Host` is not the host of the base address."),
            "429": refusal(
                f"More than {MCP_POSTS.requests:,} requests per minute from one address."
            ),
            "500": refusal("Internal error."),
        },
    }


def _answer(description: str) -> Schema:
    return json_answer(description, "JsonRpcAnswer")


_FROM_NEWEST = f"required from {PROTOCOLS[0]} on"
_PARAMETERS = [
    parameter(
        "header",
        "MCP-Protocol-Version",
        f"The protocol revision; {_FROM_NEWEST}, where it must match `_meta`.",
        enum=list(PROTOCOLS),
    ),
    parameter("header", "Mcp-Method", f"The `method` of the body; {_FROM_NEWEST}."),
    parameter("header", "Mcp-Name", f"The tool's `name` in a `tools/call`; {_FROM_NEWEST}."),
    parameter("header", "X-API-Key", "A personal key, which raises the limit of the signals tool."),
]

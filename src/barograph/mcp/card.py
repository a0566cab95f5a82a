"""How the server is found without connecting to it: one description, in the forms asked for (pure).

- the card and the catalog that links to it: SEP-2127, MCP Server Cards
- `server.json`: what the MCP registry takes
"""

import json
from typing import Any

from barograph import __version__
from barograph.discovery.files import CARD_PATH, MCP_PATH
from barograph.discovery.mcp_description import CARD_TYPE, PROTOCOLS
from barograph.mcp.messages import Names, is_loopback

ICON_PATH = "/static/icon.svg"

ICON_TYPE = "image/svg+xml"

NAME = "barograph"
TITLE = "Barograph"
DESCRIPTION = (
    "Crypto perpetuals, funding regime, briefs and signals: measured, recorded, free, keyless."
)

_CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_KEY_FIELD = {
    "name": "X-API-Key",
    "description": "A free personal key, which raises the hourly allowance of get_signals.",
    "isRequired": False,
    "isSecret": True,
}


def icons(base_url: str) -> list[dict[str, str]]:
    """The picture of the service."""
    return [{"src": base_url + ICON_PATH, "mimeType": ICON_TYPE}]


def card(base_url: str) -> bytes:
    """The server card."""
    remote = {**_remote(base_url), "supportedProtocolVersions": list(PROTOCOLS)}
    return _encode({"$schema": _CARD_SCHEMA, **_identity(base_url), "remotes": [remote]})


def registry_entry(base_url: str) -> bytes:
    """The `server.json` with which an operator lists the server in the registry."""
    found = {"$schema": _REGISTRY_SCHEMA, **_identity(base_url), "remotes": [_remote(base_url)]}
    return _encode(found)


def catalog(base_url: str) -> bytes:
    """The catalog of what a program finds at this address: the card."""
    entry = {
        "identifier": f"urn:air:{_publisher(base_url)}:mcp:{NAME}",
        "type": CARD_TYPE,
        "url": base_url + CARD_PATH,
    }
    return _encode({"specVersion": "1.0", "entries": [entry]})


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
    """The domain of the instance; one without a domain is nobody's but its own."""
    host = Names(base_url).host
    is_domain = "." in host and not is_loopback(host) and not host[-1].isdecimal()
    return host if is_domain else "localhost"


def _encode(found: dict[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()

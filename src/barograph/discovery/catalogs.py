"""Catalogs of what the service offers: all APIs (RFC 9727), and what is sold by x402 (pure)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from barograph.discovery import files, mcp_description
from barograph.kit.wire import JSON_TYPE
from barograph.payments.records import X402_VERSION
from barograph.signals.documents import DOCS_PATH

API_CATALOG_TYPE = f'{files.LINKSET_TYPE}; profile="https://www.rfc-editor.org/info/rfc9727"'

_HOW_TO_BUY = (
    "Each offer repeats the terms in the 402 of its resource. Request the resource to get the "
    "current terms before you pay. Don't pay again automatically."
)
_NOTHING_SOLD = "This instance sells nothing by x402."


def api_catalog(base_url: str) -> bytes:
    """The API catalog: the HTTP API with its newer endpoints, and the MCP server."""
    apis = [
        {
            "anchor": base_url + path,
            **{
                relation: [{"href": base_url + each, "type": kind} for each, kind in types.items()]
                for relation, types in {**relations, **_OF_EACH}.items()
            },
        }
        for path, relations in _APIS.items()
    ]
    items = [{"href": base_url + path} for path in (*_APIS, *_ENDPOINTS)]
    catalog = {"anchor": base_url + files.API_CATALOG_PATH, "item": items}
    return msgspec.json.encode({"linkset": [catalog, *apis]})


_APIS = {
    files.INDEX_PATH: {
        "service-desc": {files.OPENAPI_PATH: JSON_TYPE, files.GPT_PATH: JSON_TYPE},
        "service-meta": {files.LLMS_PATH: files.TEXT_TYPE},
    },
    mcp_description.MCP_PATH: {
        "service-meta": {
            mcp_description.CARD_PATH: mcp_description.CARD_TYPE,
            mcp_description.CATALOG_PATH: mcp_description.CATALOG_TYPE,
        }
    },
}
"""Media types by path, relation and API."""

_ENDPOINTS = tuple(
    f"/api/v1/{each}"
    for each in (
        *(
            "perpetuals",
            "cross",
            "venues",
            "series/funding",
            "liquidations",
            "events",
            "events/stream",
        ),
        *("incidents", "stances/rates-desk", "signals", "webhooks", "webhook-key", "keys"),
    )
)
"""What the OpenAPI document of the HTTP API describes under `/api/v1`."""

_OF_EACH = {"service-doc": {DOCS_PATH: "text/html"}, "status": {"/api/status": JSON_TYPE}}


def x402_catalog(offers: Sequence[bytes]) -> bytes:
    """What is sold, from the 402 bodies of everything that is sold.

    Catalogs read `version` and `resources`:
    https://github.com/Merit-Systems/x402scan/blob/main/docs/DISCOVERY.md
    """
    sold: list[dict[str, Any]] = [msgspec.json.decode(each) for each in offers]
    return msgspec.json.encode(
        {
            "version": 1,
            "x402Version": X402_VERSION,
            "resources": [each["resource"]["url"] for each in sold],
            "offers": [
                {"method": "GET", "resource": each["resource"], "accepts": each["accepts"]}
                for each in sold
            ],
            "instructions": _HOW_TO_BUY if sold else _NOTHING_SOLD,
        }
    )

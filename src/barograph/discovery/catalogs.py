"""What the service offers: the index of free endpoints, the API catalog, what is sold (pure)."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from pydantic import Field

from barograph import NOTICE
from barograph.discovery import files, mcp_description
from barograph.discovery.files import INDEX_PATH, service_links
from barograph.discovery.mcp_description import MCP_PATH
from barograph.kit.documents import Document
from barograph.kit.wire import JSON_TYPE, WireModel
from barograph.payments.records import X402_VERSION
from barograph.signals.documents import DOCS_PATH


class EndpointEntry(WireModel):
    """One free endpoint."""

    method: str
    path: Annotated[str, Field(description="Path below the base address, with a sample query.")]
    description: str


class IndexEndpoints(WireModel):
    """The free endpoints under `/api/agent`."""

    briefs: EndpointEntry
    derivatives: EndpointEntry
    market: EndpointEntry
    market_state: EndpointEntry
    guides: EndpointEntry


class Index(WireModel):
    """The service and its free endpoints."""

    name: str
    description: str
    site: Annotated[str, Field(description="Address of the site.")]
    mcp: Annotated[str, Field(title="MCP", description="Address of the MCP server.")]
    endpoints: IndexEndpoints
    notice: str


def index_document(base_url: str) -> Document:
    """Render the index of the instance at `base_url`."""
    index = Index(
        name="Barograph",
        description="Crypto market intelligence: perpetual-futures data that is measured, "
        "recorded and published. Free, no key needed.",
        site=base_url + "/",
        mcp=base_url + MCP_PATH,
        endpoints=_ENDPOINTS,
        notice=NOTICE,
    )
    return Document(index.encode(), fields=service_links(base_url))


def _read(path: str, description: str) -> EndpointEntry:
    return EndpointEntry(method="GET", path=f"{INDEX_PATH}/{path}", description=description)


_ENDPOINTS = IndexEndpoints(
    briefs=_read("briefs?limit=15", "Short analyses of the recorded data, newest first."),
    derivatives=_read(
        "derivatives?symbol=BTC",
        "Price, funding per 8 hours, open interest and positioning of any listed perpetual.",
    ),
    market=_read("market", "Funding per 8 hours and price of BTC, ETH and SOL."),
    market_state=_read(
        "market-state", "Consolidated market state: assets, 24-hour liquidations and the regime."
    ),
    guides=_read("guides", "Catalog of paid trading guides with their prices."),
)


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
    items = [{"href": base_url + path} for path in (*_APIS, *_NEWER)]
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

_NEWER = tuple(
    f"/api/v1/{each}"
    for each in (
        *(
            "perpetuals",
            "cross",
            "carry",
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
    sold: list[dict[str, Any]] = [msgspec.json.decode(offer) for offer in offers]
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

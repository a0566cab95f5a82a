"""`/api/agent`: what there is to read (pure)."""

from typing import Annotated

from pydantic import Field

from barograph import NOTICE
from barograph.discovery.files import INDEX_PATH, MCP_PATH, service_links
from barograph.kit.documents import Document
from barograph.kit.wire import WireModel


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
    """The service in one body."""

    name: str
    description: str
    site: Annotated[str, Field(description="Public site address.")]
    mcp: Annotated[str, Field(description="Address of the Model Context Protocol endpoint.")]
    endpoints: IndexEndpoints
    notice: str


def index_document(base_url: str) -> Document:
    """Render the index of the instance at `base_url`."""
    index = Index(
        name="Barograph",
        description="Crypto market intelligence: perpetual-futures data that is measured, "
        "recorded and published, free and without a key.",
        site=base_url + "/",
        mcp=base_url + MCP_PATH,
        endpoints=_ENDPOINTS,
        notice=NOTICE,
    )
    return Document(index.encode(), fields=service_links(base_url))


_ENDPOINTS = IndexEndpoints(
    briefs=EndpointEntry(
        method="GET",
        path=f"{INDEX_PATH}/briefs?limit=15",
        description="Analysis written from the record, newest first.",
    ),
    derivatives=EndpointEntry(
        method="GET",
        path=f"{INDEX_PATH}/derivatives?symbol=BTC",
        description="Price, funding, open interest and positioning of any live perpetual.",
    ),
    market=EndpointEntry(
        method="GET",
        path=f"{INDEX_PATH}/market",
        description="Funding and price snapshot of BTC, ETH and SOL.",
    ),
    market_state=EndpointEntry(
        method="GET",
        path=f"{INDEX_PATH}/market-state",
        description="Consolidated market state: assets, 24-hour liquidations and the regime.",
    ),
    guides=EndpointEntry(
        method="GET",
        path=f"{INDEX_PATH}/guides",
        description="Catalog of paid trading guides with their prices.",
    ),
)

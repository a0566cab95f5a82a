"""`/api/agent`: the index of the free endpoints (pure)."""

from typing import Annotated

from pydantic import Field

from barograph import NOTICE
from barograph.discovery.files import INDEX_PATH, service_links
from barograph.discovery.mcp_description import MCP_PATH
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
        "Price, funding, open interest and positioning of any listed perpetual.",
    ),
    market=_read("market", "Funding and price snapshot of BTC, ETH and SOL."),
    market_state=_read(
        "market-state", "Consolidated market state: assets, 24-hour liquidations and the regime."
    ),
    guides=_read("guides", "Catalog of paid trading guides with their prices."),
)

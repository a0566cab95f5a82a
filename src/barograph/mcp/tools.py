"""The tools: one for each free endpoint (pure).

Names and arguments are part of the interface and stay. All of it together is read into the context
of whoever connects, so a word more than needed is paid for by everyone.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from barograph.briefs.limits import DEFAULT as DEFAULT_LIMIT
from barograph.briefs.limits import HIGHEST, LOWEST
from barograph.briefs.wire import BriefList
from barograph.guides.wire import Guides
from barograph.kit.wire import WireModel
from barograph.markets.symbols import DEFAULT as DEFAULT_SYMBOL
from barograph.markets.symbols import PATTERN
from barograph.markets.wire import Market, MarketState, PerpetualRecord
from barograph.mcp.card import ICON_PATH
from barograph.mcp.schemas import Schema, output_schema
from barograph.signals.wire import PublicSignals
from barograph.status.wire import ServiceStatus

BRIEFS = "get_briefs"
DERIVATIVES = "get_derivatives"
MARKET = "get_market"
MARKET_STATE = "get_market_state"
GUIDES = "get_guides"
SIGNALS = "get_signals"
STATUS = "get_status"


class Tool(NamedTuple):
    """A tool as it is advertised; `body` is what the endpoint answers."""

    name: str
    title: str
    description: str
    body: type[WireModel]
    parameters: Mapping[str, Schema] = {}

    @property
    def input_schema(self) -> Schema:
        """What may be given: nothing is required, and nothing else is taken."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "additionalProperties": False,
        }

    def entry(self) -> dict[str, Any]:
        """The tool in the list of tools."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": output_schema(self.body),
            "annotations": _ANNOTATIONS,
        }


# What only reads is neither destructive nor does it differ when it is repeated.
_ANNOTATIONS = {
    "readOnlyHint": True,
    # They read what the service has recorded, and nothing that a caller could choose.
    "openWorldHint": False,
}
_LIMIT: Schema = {
    "type": "integer",
    "minimum": LOWEST,
    "maximum": HIGHEST,
    "default": DEFAULT_LIMIT,
    "description": "How many; clamped.",
}
_SYMBOL: Schema = {
    "type": "string",
    "pattern": PATTERN,
    "default": DEFAULT_SYMBOL,
    "description": "BTC or BTCUSDT, any case.",
}

TOOLS = (
    Tool(
        MARKET_STATE,
        "Market state",
        "BTC, ETH, SOL perpetuals, 24 h liquidations, funding regime, citation. Seconds old; an "
        "error instead of stale data.",
        MarketState,
    ),
    Tool(
        DERIVATIVES,
        "Derivatives",
        "Price, funding, open interest, long accounts of one perpetual; unknown: available false. "
        "Seconds old, else an error.",
        PerpetualRecord,
        {"symbol": _SYMBOL},
    ),
    Tool(
        MARKET,
        "Market snapshot",
        "Price, funding, open interest, long accounts of BTC, ETH, SOL. Seconds old, else an "
        "error.",
        Market,
    ),
    Tool(
        BRIEFS,
        "Briefs",
        "Short analyses of the record, newest first. An error when it cannot be read.",
        BriefList,
        {"limit": _LIMIT},
    ),
    Tool(
        SIGNALS,
        "Regime signals",
        "Label and value of each; unknown when stale. 120 calls an hour, 1,000 with an X-API-Key "
        "header, then an error; says what is left.",
        PublicSignals,
    ),
    Tool(
        GUIDES,
        "Guide catalog",
        "27 trading guides with prices in USD; the guides are paid. Rarely changes.",
        Guides,
    ),
    Tool(
        STATUS,
        "Service status",
        "Health and age of feed and API now; ask when another tool fails.",
        ServiceStatus,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}

LONGEST_LIST = 7_780
"""Bytes: with what each revision puts around it the list stays under 8,000, about 2,000 tokens."""


def tool_list(base_url: str) -> list[dict[str, Any]]:
    """Every tool, with the icon of the service at a base address where that is short enough."""
    plain = [tool.entry() for tool in TOOLS]
    icons = [{"src": base_url + ICON_PATH}]
    shown = [{**entry, "icons": icons} for entry in plain]
    return shown if len(json.dumps(shown, separators=(",", ":"))) <= LONGEST_LIST else plain

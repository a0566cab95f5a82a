"""The tools: one for each free endpoint (pure).

Names and arguments are part of the interface and stay. All of it together is read into the context
of whoever connects, so a word more than needed is paid for by everyone.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from barograph.briefs.documents import DEFAULT as DEFAULT_LIMIT
from barograph.briefs.documents import HIGHEST, LOWEST, BriefList
from barograph.errors import InvalidRequest
from barograph.guides.documents import Guides
from barograph.kit.wire import WireModel
from barograph.markets.documents import Market, MarketState, PerpetualRecord
from barograph.markets.symbols import DEFAULT as DEFAULT_SYMBOL
from barograph.markets.symbols import PATTERN, is_normalized
from barograph.mcp.card import ICON_PATH
from barograph.signals.documents import PublicSignals
from barograph.status.rules import ServiceStatus

Schema = dict[str, Any]

_REFERENCE = "$ref"
_DEFINITIONS = "$defs"
# Objects are left open: a list of tools is kept for a while, and a member that is new must not fail
# those who keep an old list.
_LEFT_OUT = frozenset(
    {
        *("title", "description", "default", "additionalProperties", "exclusiveMinimum"),
        _DEFINITIONS,
    }
)

_TELLING = frozenset({"enum", "const"})
"""Where the values themselves are listed, their type goes without saying."""

_MAYBE: Schema = {"anyOf": [{"type": "number"}, {"type": "null"}]}
"""A number that may not be known, by far the most frequent part that is long."""

_SHORT = "n"
_TO_SHORT: Schema = {_REFERENCE: f"#/{_DEFINITIONS}/{_SHORT}"}


def output_schema(body: type[WireModel]) -> Schema:
    """The schema of a body as it goes over the wire, in as few bytes as say the same.

    Each model is used once, so it is shorter where it is used than apart.
    """
    whole = body.model_json_schema(mode="serialization")
    plain = _compact(whole, whole.get(_DEFINITIONS, {}))
    apart = {**_shared(plain), _DEFINITIONS: {_SHORT: _MAYBE}}
    return min(plain, apart, key=lambda schema: len(json.dumps(schema)))


def _shared(schema: Schema) -> Schema:
    """The same schema with references to the number that may not be known."""
    if schema == _MAYBE:
        return _TO_SHORT
    return {
        keyword: _shared(value) if isinstance(value, dict) else value
        for keyword, value in schema.items()
    }


def _compact(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if _REFERENCE in schema:
        name = schema[_REFERENCE].removeprefix(f"#/{_DEFINITIONS}/")
        return _compact(definitions[name], definitions)
    found: Schema = {}
    if not _TELLING.isdisjoint(schema):
        schema = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    for keyword, value in schema.items():
        match keyword:
            case "properties":  # a property may be called like a keyword
                found[keyword] = {name: _compact(each, definitions) for name, each in value.items()}
            case "items":
                found[keyword] = _compact(value, definitions)
            case "anyOf":
                found[keyword] = [_compact(each, definitions) for each in value]
            case _ if keyword not in _LEFT_OUT:
                found[keyword] = value
    return found


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


Arguments = Mapping[str, Any]

_NOT_A_LIMIT = f"limit must be a whole number; {LOWEST} to {HIGHEST} are possible"
_NOT_A_SYMBOL = "symbol must be 1 to 15 letters or digits, such as BTC or BTCUSDT"


def check_names(tool: Tool, given: Arguments) -> None:
    """Look whether a tool knows every argument.

    Raises:
        InvalidRequest: it does not.
    """
    if not given.keys() <= tool.parameters.keys():
        known = " and ".join(tool.parameters)
        takes = f"only {known}" if known else "no arguments"
        raise InvalidRequest(f"{tool.name} takes {takes}")


def limit_of(given: Arguments) -> int:
    """Read `limit`: any whole number is brought into the range.

    Raises:
        InvalidRequest: it is something else.
    """
    limit = given.get("limit")
    if limit is None:
        return DEFAULT_LIMIT
    is_whole = isinstance(limit, int) or (isinstance(limit, float) and limit.is_integer())
    if isinstance(limit, bool) or not is_whole:
        raise InvalidRequest(_NOT_A_LIMIT)
    return int(min(max(limit, LOWEST), HIGHEST))


def symbol_of(given: Arguments) -> str:
    """Read `symbol`, in upper case.

    Raises:
        InvalidRequest: it is empty or malformed.
    """
    symbol = given.get("symbol")
    if symbol is None:
        return DEFAULT_SYMBOL
    # ASCII first: there are letters elsewhere that become ASCII ones in upper case.
    if not isinstance(symbol, str) or not symbol.isascii() or not is_normalized(symbol.upper()):
        raise InvalidRequest(_NOT_A_SYMBOL)
    return symbol.upper()

"""The tools: one for each free endpoint (pure).

Names and arguments are part of the interface. Every client loads the whole list into its context,
so texts and schemas are as short as possible.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from barograph.briefs.documents import DEFAULT_BRIEFS, MAX_BRIEFS, MIN_BRIEFS, BriefList
from barograph.discovery.mcp_description import ICON_PATH, TOOL_NAMES
from barograph.errors import InvalidRequest
from barograph.guides.documents import Guides
from barograph.kit.wire import Schema, WireModel
from barograph.markets.documents import Market, MarketState, PerpetualRecord
from barograph.markets.symbols import DEFAULT_SYMBOL, PATTERN, RULE, normalized
from barograph.signals.documents import PublicSignals
from barograph.status.rules import ServiceStatus

MARKET_STATE, DERIVATIVES, MARKET, BRIEFS, SIGNALS, GUIDES, STATUS = TOOL_NAMES

MAX_LIST_BYTES = 7_780
"""With the envelope of each revision the list stays below 8,000 bytes, about 2,000 tokens."""

Arguments = Mapping[str, Any]


class Tool(NamedTuple):
    """A tool; `body` is the body of its endpoint."""

    name: str
    title: str
    description: str
    body: type[WireModel]
    parameters: Mapping[str, Schema] = {}

    @property
    def input_schema(self) -> Schema:
        """The schema of the arguments, which are all optional."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "additionalProperties": False,
        }

    def entry(self) -> dict[str, Any]:
        """The tool's entry in the list."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": output_schema(self.body),
            # Tools read recorded data only; read-only implies idempotent and not destructive.
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


_LIMIT: Schema = {
    "type": "integer",
    "minimum": MIN_BRIEFS,
    "maximum": MAX_BRIEFS,
    "default": DEFAULT_BRIEFS,
    "description": "Clamped.",
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
        "BTC, ETH, SOL perpetuals, 24 h liquidations, funding regime, citation. Data is "
        "seconds old; an error if stale.",
        MarketState,
    ),
    Tool(
        DERIVATIVES,
        "Derivatives",
        "Price, funding, open interest, long accounts of one perpetual; available is false if "
        "unknown. Data is seconds old; an error if stale.",
        PerpetualRecord,
        {"symbol": _SYMBOL},
    ),
    Tool(
        MARKET,
        "Market snapshot",
        "Price, funding, open interest, long accounts of BTC, ETH, SOL. Data is seconds old; an "
        "error if stale.",
        Market,
    ),
    Tool(
        BRIEFS,
        "Briefs",
        "Short analyses of recorded data, newest first. An error if the database fails.",
        BriefList,
        {"limit": _LIMIT},
    ),
    Tool(
        SIGNALS,
        "Regime signals",
        "Label and value of each; unknown when stale. 120 calls per hour, 1,000 with an X-API-Key "
        "header, then an error.",
        PublicSignals,
    ),
    Tool(
        GUIDES,
        "Guide catalog",
        "27 paid trading guides with prices in USD. Rarely changes.",
        Guides,
    ),
    Tool(
        STATUS,
        "Service status",
        "Current API health and feed age. Call it when another tool fails.",
        ServiceStatus,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


def tool_list(base_url: str) -> list[dict[str, Any]]:
    """Every tool, with the service's icon if the base address is short enough for it."""
    plain = [tool.entry() for tool in TOOLS]
    icons = [{"src": base_url + ICON_PATH}]
    with_icons = [{**entry, "icons": icons} for entry in plain]
    length = len(json.dumps(with_icons, separators=(",", ":")))
    return with_icons if length <= MAX_LIST_BYTES else plain


def check_names(tool: Tool, given: Arguments) -> None:
    """Check that a tool has every argument.

    Raises:
        InvalidRequest: it does not.
    """
    if not given.keys() <= tool.parameters.keys():
        known = " and ".join(tool.parameters)
        takes = f"only {known}" if known else "no arguments"
        raise InvalidRequest(f"{tool.name} takes {takes}")


def limit_of(given: Arguments) -> int:
    """The `limit`, clamped to the range.

    Raises:
        InvalidRequest: it is not an integer.
    """
    limit = given.get("limit")
    if limit is None:
        return DEFAULT_BRIEFS
    is_whole = isinstance(limit, int) or (isinstance(limit, float) and limit.is_integer())
    if isinstance(limit, bool) or not is_whole:
        raise InvalidRequest(f"limit must be an integer from {MIN_BRIEFS} to {MAX_BRIEFS}")
    return int(min(max(limit, MIN_BRIEFS), MAX_BRIEFS))


def symbol_of(given: Arguments) -> str:
    """The `symbol`, in upper case.

    Raises:
        InvalidRequest: it is empty or malformed.
    """
    symbol = given.get("symbol")
    if symbol is None:
        return DEFAULT_SYMBOL
    found = normalized(symbol) if isinstance(symbol, str) else None
    if found is None:
        raise InvalidRequest(f"{RULE}, such as BTC or BTCUSDT")
    return found


_REFERENCE = "$ref"
_DEFINITIONS = "$defs"
# Objects stay open: clients cache the list, and a new member must not break them.
_LEFT_OUT = frozenset(
    {*("title", "description", "default", "additionalProperties", "exclusiveMinimum"), _DEFINITIONS}
)
_NULLABLE_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"type": "null"}]}
"""By far the most frequent long part of a schema."""

_TO_NULLABLE_NUMBER: Schema = {_REFERENCE: f"#/{_DEFINITIONS}/n"}


def output_schema(body: type[WireModel]) -> Schema:
    """The schema of a body, in as few bytes as possible."""
    schema = body.model_json_schema(mode="serialization")
    inlined = _compact(schema, schema.get(_DEFINITIONS, {}))
    shared = {**_with_shared_number(inlined), _DEFINITIONS: {"n": _NULLABLE_NUMBER}}
    return min(inlined, shared, key=lambda each: len(json.dumps(each)))


def _with_shared_number(schema: Schema) -> Schema:
    if schema == _NULLABLE_NUMBER:
        return _TO_NULLABLE_NUMBER
    return {
        keyword: _with_shared_number(value) if isinstance(value, dict) else value
        for keyword, value in schema.items()
    }


def _compact(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The schema without texts, and with every reference replaced by its definition."""
    if _REFERENCE in schema:
        name = schema[_REFERENCE].removeprefix(f"#/{_DEFINITIONS}/")
        return _compact(definitions[name], definitions)
    if not schema.keys().isdisjoint({"enum", "const"}):  # the values imply the type
        schema = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    found: Schema = {}
    for keyword, value in schema.items():
        match keyword:
            case "properties":  # a property may have the name of a keyword
                found[keyword] = {name: _compact(each, definitions) for name, each in value.items()}
            case "items":
                found[keyword] = _compact(value, definitions)
            case "anyOf":
                found[keyword] = [_compact(each, definitions) for each in value]
            case _ if keyword not in _LEFT_OUT:
                found[keyword] = value
    return found

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
from barograph.events.records import EVENT_TYPES
from barograph.guides.documents import Guides
from barograph.kit.wire import Schema, WireModel
from barograph.markets.documents import MarketState
from barograph.markets.symbols import DEFAULT_SYMBOL, PATTERN, RULE, normalized
from barograph.mcp.documents import (
    SORTS,
    Derivatives,
    Events,
    MarketSnapshot,
    PerpetualRows,
    Series,
)
from barograph.series.query import INTERVALS, MARKET_SERIES
from barograph.signals.documents import PublicSignals
from barograph.status.rules import ServiceStatus

MARKET_STATE, DERIVATIVES, MARKET, PERPETUALS, BRIEFS, SIGNALS, GUIDES, STATUS, EVENTS, SERIES = (
    TOOL_NAMES
)

MAX_LIST_BYTES = 9_480
"""With the envelope of each revision the list stays below 9,700 bytes, about 2,425 tokens."""

MAX_ROWS, MAX_EVENTS, MAX_POINTS = 100, 50, 200
DEFAULT_MEASURE = "funding"
DEFAULT_SORT = "openInterest"

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


def _limit(lowest: int, default: int, highest: int) -> Schema:
    numbers = {"minimum": lowest, "maximum": highest, "default": default}
    return {"type": "integer", **numbers}


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
        Derivatives,
        {"symbol": _SYMBOL},
    ),
    Tool(
        MARKET,
        "Market snapshot",
        "Price, funding, open interest, long accounts of BTC, ETH, SOL. Data is seconds old; an "
        "error if stale.",
        MarketSnapshot,
    ),
    Tool(
        PERPETUALS,
        "Perpetuals",
        "The perpetuals with the largest open interest, funding or 24 h price change, up or down. "
        "Data is seconds old; an error if stale.",
        PerpetualRows,
        {
            "sort": {"enum": list(SORTS), "default": DEFAULT_SORT, "type": "string"},
            "limit": _limit(1, 20, MAX_ROWS),
        },
    ),
    Tool(
        BRIEFS,
        "Briefs",
        "Short analyses of recorded data, newest first. An error if the database fails.",
        BriefList,
        {"limit": _limit(MIN_BRIEFS, DEFAULT_BRIEFS, MAX_BRIEFS)},
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
    Tool(
        EVENTS,
        "Events",
        "What changed, oldest first. Keep the last id and pass it as after next time. An error "
        "if the database fails.",
        Events,
        {
            "after": {"type": "integer", "default": 0, "description": "Events after this id."},
            "since": {"type": "string", "description": "Or from this ISO time on."},
            "type": {"type": "array", "items": {"enum": list(EVENT_TYPES)}},
            "symbol": {"type": "string", "description": "BTC, or several with commas."},
            "limit": _limit(1, 20, MAX_EVENTS),
        },
    ),
    Tool(
        SERIES,
        "Series",
        "Recorded history, oldest first; value null is a gap. To continue, pass the last at as "
        "from. An error if the database fails.",
        Series,
        {
            "measure": {
                "type": "string",
                "default": DEFAULT_MEASURE,
                "description": f"{', '.join(MARKET_SERIES)} (with key), us10y …",
            },
            "symbol": {"type": "string", "description": "Default BTC."},
            "key": {"type": "string"},
            "from": {"type": "string", "description": "ISO time; default 7 days ago or more."},
            "to": {"type": "string"},
            "interval": {"type": "string", "enum": list(INTERVALS)},
            "limit": _limit(1, MAX_POINTS, MAX_POINTS),
        },
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


def limit_of(tool: str, given: Arguments) -> int:
    """The `limit` of a tool, clamped to its range.

    Raises:
        InvalidRequest: it is not an integer.
    """
    schema, limit = BY_NAME[tool].parameters["limit"], given.get("limit")
    lowest, highest = schema["minimum"], schema["maximum"]
    if limit is None:
        return int(schema["default"])
    if not _is_integer(limit):
        raise InvalidRequest(f"limit must be an integer from {lowest} to {highest}")
    return int(min(max(limit, lowest), highest))


def query_of(tool: str, given: Arguments) -> dict[str, str]:
    """The arguments of a tool as the query of its endpoint, which checks most values.

    Raises:
        InvalidRequest: one has another type than its schema, or is none of its words.
    """
    found = {
        name: _text(name, schema, given[name])
        for name, schema in BY_NAME[tool].parameters.items()
        if name != "limit" and given.get(name) is not None
    }
    return {**found, "limit": str(limit_of(tool, given))}


def _text(name: str, schema: Schema, value: object) -> str:
    kind = schema["type"]
    if kind == "integer" and isinstance(value, int | float) and _is_integer(value):
        return str(int(value))
    if kind == "array" and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if "enum" in schema and value not in schema["enum"]:
        raise InvalidRequest(f"{name} must be one of {', '.join(schema['enum'])}")
    if kind == "string" and isinstance(value, str):
        return value
    article = "an" if kind[0] in "ai" else "a"
    raise InvalidRequest(f"{name} must be {article} {kind}")


def _is_integer(value: object) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


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


def output_schema(body: type[WireModel]) -> Schema:
    """The schema of a body, in as few bytes as possible: its members and those of list entries.

    Every member is always there.
    """
    schema = body.model_json_schema(mode="serialization")
    definitions = schema.get(_DEFINITIONS, {})
    members = schema["properties"].items()
    return {
        "type": "object",
        "properties": {name: _member(each, definitions) for name, each in members},
    }


def _member(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "anyOf" in schema:  # of this form are only members that may be null
        return {"type": [each["type"] for each in schema["anyOf"]]}
    if _REFERENCE in schema:
        return {"type": _definition(schema, definitions)["type"]}
    kept = {"type": schema["type"]} if "type" in schema else {}
    if _REFERENCE in schema.get("items", {}):
        members = _definition(schema["items"], definitions)["properties"].items()
        entry = {name: _member(each, definitions) for name, each in members}
        kept["items"] = {"type": "object", "properties": entry}
    return kept


def _definition(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return definitions[schema[_REFERENCE].removeprefix(f"#/{_DEFINITIONS}/")]

"""The tools: one for each free endpoint that models need (pure).

Names and arguments are part of the interface. Every client loads the whole list into its context,
so texts and schemas are as short as possible.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from barograph.briefs.documents import DEFAULT_BRIEFS, MAX_BRIEFS, MIN_BRIEFS, BriefList
from barograph.discovery.mcp_description import TOOL_NAMES
from barograph.errors import InvalidRequest
from barograph.events.records import EVENT_TYPES
from barograph.guides.documents import Guides
from barograph.kit.wire import Schema, WireModel
from barograph.markets.carry import DEFAULT_WINDOW
from barograph.markets.documents import MarketState, PerpetualRecord
from barograph.markets.settlements import WINDOW_DAYS
from barograph.markets.symbols import DEFAULT_SYMBOL, PATTERN, RULE, normalized
from barograph.signals.documents import PublicSignals
from barograph.status.rules import ServiceStatus

(
    MARKET_STATE,
    DERIVATIVES,
    MARKET,
    PERPETUALS,
    CROSS,
    CARRY,
    BRIEFS,
    SIGNALS,
    GUIDES,
    STATUS,
    EVENTS,
    SERIES,
) = TOOL_NAMES

SORTS = {
    "openInterest": "openInterestUsd",
    "funding": "fundingRatePct8h",
    "change": "priceChange24hPct",
}
MAX_ROWS, MAX_EVENTS, MAX_POINTS = 100, 50, 200

Arguments = Mapping[str, Any]


def _object(**members: Schema) -> Schema:
    # Objects stay open: clients cache the list, and a new member must not break them.
    return {"type": "object", "properties": members}


def _entries(**members: Schema) -> Schema:
    return {"type": "array", "items": _object(**members)}


_NUMBER: Schema = {"$ref": "#/$defs/n"}
_TEXT_OR_NULL: Schema = {"$ref": "#/$defs/s"}
"""A number or null and a text or null, by far the most frequent long parts of a schema.

A list of types would be shorter, but some clients know only single types.
"""


def _nullable(*kinds: str) -> Schema:
    return {"anyOf": [{"type": kind} for kind in (*kinds, "null")]}


def _members(body: type[WireModel]) -> dict[str, Schema]:
    """The types of a body's members."""
    schema = body.model_json_schema(mode="serialization")
    return {name: _type(each) for name, each in schema["properties"].items()}


def _type(schema: Schema) -> Schema:
    if "anyOf" in schema:  # of this form are only numbers that may be null
        return _NUMBER
    return {"type": "object" if "$ref" in schema else schema["type"]}


class Tool(NamedTuple):
    """A tool; `output` has the types of the members of its result, which all are always there."""

    name: str
    title: str
    description: str
    output: Mapping[str, Schema]
    parameters: Mapping[str, Schema] = {}

    @property
    def input_schema(self) -> Schema:
        """The schema of the arguments, which are all optional."""
        return {
            "type": "object",
            "properties": {
                name: _published(parameter) for name, parameter in self.parameters.items()
            },
            "additionalProperties": False,
        }

    def entry(self) -> dict[str, Any]:
        """The tool's entry in the list, in as few tokens as possible."""
        output = {**_object(**self.output), "required": list(self.output)}
        shared = {"n": _nullable("number"), "s": _nullable("string")}
        used = {name: each for name, each in shared.items() if f"#/$defs/{name}" in str(output)}
        if used:
            output["$defs"] = used
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": output,
            # Tools read recorded data only; read-only implies idempotent and not destructive.
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


def _published(schema: Schema) -> Schema:
    """The schema of an argument without its range: other integers are clamped, not refused."""
    return {name: each for name, each in schema.items() if name not in {"minimum", "maximum"}}


def _limit(lowest: int, default: int, highest: int) -> Schema:
    numbers = {"minimum": lowest, "maximum": highest, "default": default}
    return {"type": "integer", **numbers, "description": f"{lowest}-{highest}, clamped."}


_SYMBOL: Schema = {
    "type": "string",
    "pattern": PATTERN,
    "default": DEFAULT_SYMBOL,
    "description": "BTC or BTCUSDT.",
}

_TEXT: Schema = {"type": "string"}
_ASSETS = _entries(symbol=_TEXT, available={"type": "boolean"})
_SOURCED = {"as_of": _TEXT, "source": _TEXT, "notice": _TEXT}
_SECONDS_OLD = "Seconds old, or an error."
PERPETUAL = (
    *("symbol", "lastPrice", "openInterestUsd", "longAccountPct", "fundingIntervalHours"),
    *("fundingRatePct8h", "priceChange24hPct"),
)
"""What a model needs to compare perpetuals."""

TOOLS = (
    Tool(
        MARKET_STATE,
        "Market state",
        "BTC, ETH, SOL perpetuals, funding per 8 h, 24 h liquidations, regime, citation. "
        f"{_SECONDS_OLD}",
        {**_members(MarketState), "assets": _ASSETS},
    ),
    Tool(
        DERIVATIVES,
        "Derivatives",
        "Price, funding per 8 h and as stated, open interest, long accounts of one perpetual; "
        f"available is false if unknown. {_SECONDS_OLD}",
        {
            **_members(PerpetualRecord),
            **dict.fromkeys(("statedFundingRatePct", "fundingIntervalHours"), _NUMBER),
            "as_of": _TEXT,
        },
        {"symbol": _SYMBOL},
    ),
    Tool(
        MARKET,
        "Market",
        f"Price, funding per 8 h, open interest, long accounts of BTC, ETH, SOL. {_SECONDS_OLD}",
        {**_SOURCED, "assets": _ASSETS},
    ),
    Tool(
        PERPETUALS,
        "Perpetuals",
        f"Largest perpetuals by open interest, funding or 24 h price change. {_SECONDS_OLD}",
        {**_SOURCED, "perpetuals": _entries(symbol=_TEXT)},
        {
            "sort": {"enum": list(SORTS), "default": next(iter(SORTS)), "type": "string"},
            "limit": _limit(1, 20, MAX_ROWS),
        },
    ),
    Tool(
        CROSS,
        "Cross-venue",
        "A coin at each venue: price, funding settled over the same windows, live estimate, "
        "one-sided open interest; totals, maybe partial. No coin: the venues. "
        f"{_SECONDS_OLD}",
        {**_SOURCED, "venues": _entries(venue=_TEXT, state=_TEXT)},
        {"coin": _TEXT},
    ),
    Tool(
        CARRY,
        "Carry",
        "Settled funding of coins by venue; widest pair first. Fees and prices are not included.",
        {**_SOURCED, "window": _TEXT, "notIncluded": _TEXT, "carry": _entries(coin=_TEXT)},
        {
            "window": {"type": "string", "enum": list(WINDOW_DAYS), "default": DEFAULT_WINDOW},
            "coin": _TEXT,
            "limit": _limit(1, 10, MAX_ROWS),
        },
    ),
    Tool(
        BRIEFS,
        "Briefs",
        "Short analyses, newest first.",
        _members(BriefList),
        {"limit": _limit(MIN_BRIEFS, DEFAULT_BRIEFS, MAX_BRIEFS)},
    ),
    Tool(
        SIGNALS,
        "Signals",
        "Label (unknown if stale; returns to normal only after 60 min) and value. 120 calls/h, "
        "1,000 with X-API-Key.",
        _members(PublicSignals),
    ),
    Tool(
        GUIDES,
        "Guides",
        "Catalog of 27 paid guides or a sample; prices in USD.",
        _members(Guides),
    ),
    Tool(
        STATUS,
        "Status",
        "Current health and feed age, for when another tool fails.",
        _members(ServiceStatus),
    ),
    Tool(
        EVENTS,
        "Events",
        "What changed, oldest first; by default the newest. Pass the last id as after.",
        {
            **_SOURCED,
            "last_id": {"type": "integer"},
            "events": _entries(id={"type": "integer"}, type=_TEXT, at=_TEXT),
        },
        {
            "after": {"type": "integer"},
            "since": {"type": "string", "description": "Or an ISO time."},
            "type": {"type": "array", "items": {"enum": list(EVENT_TYPES)}},
            "symbol": {"type": "string", "description": "BTC,ETH."},
            "limit": _limit(1, 20, MAX_EVENTS),
        },
    ),
    Tool(
        SERIES,
        "Series",
        "History, oldest first; null is a gap; don't use disputed values. Continue from next_from.",
        {
            **_SOURCED,
            **dict.fromkeys(("measure", "unit"), _TEXT),
            **dict.fromkeys(("venue", "symbol", "next_from"), _TEXT_OR_NULL),
            "interval_seconds": _NUMBER,
            "points": _entries(at=_TEXT, value=_nullable("number", "string")),
        },
        {
            "measure": {
                "type": "string",
                "default": "funding",
                "description": "price, index-price, basis, funding, settled-funding, "
                "open-interest, open-interest-coins, volume, volume-coins, long-accounts, "
                "liquidations, regime, signals (with key), us10y …",
            },
            "symbol": {"type": "string", "description": "Default BTC; liquidations: all."},
            "venue": {"type": "string", "description": "Such as bybit; all: totals."},
            "key": {"type": "string"},
            "from": {"type": "string", "description": "ISO; default 7 days ago or more. Or start."},
            "to": {"type": "string", "description": "Or end."},
            "start": {"type": "string"},
            "end": {"type": "string"},
            "interval": {"type": "string", "enum": ["minute", "hour", "4h", "day"]},
            "limit": _limit(1, MAX_POINTS, MAX_POINTS),
        },
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}

_OTHER_NAMES = {"start": "from", "end": "to"}
"""Of arguments of `get_series`, because models use both."""


def query_of(tool: Tool, given: Arguments) -> dict[str, str]:
    """The arguments of a tool and their defaults as the query of its endpoint.

    An integer is clamped to its range. An empty text counts as absent unless the schema refuses it.
    The endpoint checks most other values.

    Raises:
        InvalidRequest: the tool doesn't have an argument, or its schema allows another one only.
    """
    if not given.keys() <= tool.parameters.keys():
        known = ", ".join(tool.parameters)
        raise InvalidRequest(f"{tool.name} takes {f'only {known}' if known else 'no arguments'}")
    arguments = {}
    for name, schema in tool.parameters.items():
        is_plain = schema["type"] == "string" and not {"enum", "pattern"} & schema.keys()
        is_absent = given.get(name) in ((None, [], "") if is_plain else (None, []))
        value = schema.get("default") if is_absent else given[name]
        if value is not None:
            text, own = _text(name, schema, value), _OTHER_NAMES.get(name, name)
            if own in arguments:
                raise InvalidRequest(f"give {own} or {name}, not both")
            arguments[own] = text
    return arguments


def _text(name: str, schema: Schema, value: Any) -> str:  # noqa: ANN401
    kind = schema["type"]
    text: str | None = None
    if "enum" in schema:
        text = value if value in schema["enum"] else None
    elif "pattern" in schema:
        text = normalized(value) if isinstance(value, str) else None
    elif kind == "string" and isinstance(value, str):
        text = value
    elif kind == "integer" and _is_integer(value):
        clamped = min(max(value, schema.get("minimum", value)), schema.get("maximum", value))
        text = str(int(clamped))
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        text = ",".join(value) if kind == "array" else None
    if text is None:
        raise InvalidRequest(_rule(name, schema))
    return text


def _rule(name: str, schema: Schema) -> str:
    if "pattern" in schema:
        return f"{RULE}, such as BTC or BTCUSDT"
    if "enum" in schema:
        return f"{name} must be one of {', '.join(schema['enum'])}"
    span = f" from {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else ""
    return f"{name} must be {'a' if schema['type'] == 'string' else 'an'} {schema['type']}{span}"


def _is_integer(value: object) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)

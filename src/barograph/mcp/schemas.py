"""How a wire model is described to a model that pays for every word (pure)."""

import json
from collections.abc import Mapping
from typing import Any

from barograph.kit.wire import WireModel

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

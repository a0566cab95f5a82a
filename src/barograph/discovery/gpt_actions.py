"""The keyless OpenAPI document for GPT actions: free reads only, within their limits (pure)."""

from collections.abc import Iterator

from barograph.discovery.operations import FREE_DESCRIPTION
from barograph.kit.wire import JSON_TYPE, Schema

TAGS = frozenset({"discovery", "market", "venues", "briefs", "guides", "signals", "status"})
LISTS = tuple(
    f"/api/v1/{name}" for name in ("perpetuals", "series", "liquidations", "listings", "events")
)
"""Free JSON endpoints, by tag and by path. Badges, files and digests are left out."""

SHORTENING = frozenset({"limit", "check"})
MAX_ENTRIES, MAX_LONG_ENTRIES = 100, 15
"""A reply without these parameters, or a longer list, would be too long for an action. The
second is for coins, each with all venues."""

IMPOSSIBLE = frozenset({"401", "405", "414", "503"})
"""Statuses that no action gets, because it sends only described requests and no key."""


def gpt_schema(schema: Schema) -> Schema:
    """Reduce the OpenAPI document of the whole interface.

    Actions neither send nor read header fields, so keys and caching are left out.
    """
    paths = {
        path: {"get": _operation(item["get"])}
        for path, item in schema["paths"].items()
        if "get" in item and _is_free_json(path, item["get"])
    }
    schemas = schema["components"]["schemas"]
    return {
        "openapi": schema["openapi"],
        "info": {**schema["info"], "description": FREE_DESCRIPTION},
        "servers": schema["servers"],
        "security": [],
        "tags": [tag for tag in schema["tags"] if tag["name"] in _tags(paths)],
        "paths": paths,
        "components": {"schemas": {name: schemas[name] for name in _used(paths, schemas)}},
    }


def _is_free_json(path: str, operation: Schema) -> bool:
    is_free = TAGS.issuperset(operation["tags"]) or path.startswith(LISTS)
    return (
        is_free and "{digest}" not in path and JSON_TYPE in operation["responses"]["200"]["content"]
    )


def _tags(paths: Schema) -> set[str]:
    return {tag for item in paths.values() for tag in item["get"]["tags"]}


def _operation(operation: Schema) -> Schema:
    parameters = [
        _parameter(parameter, MAX_LONG_ENTRIES if "venues" in operation["tags"] else MAX_ENTRIES)
        for parameter in operation.get("parameters", ())
        if parameter.get("in") in {"query", "path"}
    ]
    responses = {
        status: {"description": each["description"], "content": _content(each["content"])}
        for status, each in operation["responses"].items()
        if "content" in each and status not in IMPOSSIBLE
    }
    kept = {name: operation[name] for name in ("tags", "operationId", "summary", "description")}
    if parameters:
        kept["parameters"] = parameters
    return {**kept, "responses": responses, "x-openai-isConsequential": False}


def _parameter(given: Schema, most: int) -> Schema:
    """A parameter without its example; what keeps a long reply short is required."""
    kept = {name: value for name, value in given.items() if name != "example"}
    if given["name"] in SHORTENING:
        schema = {name: value for name, value in given["schema"].items() if name != "default"}
        if schema["type"] == "integer" and "maximum" not in schema:
            schema["maximum"] = most
            kept["description"] += f" More than {most} would not fit in an action."
        kept |= {"required": True, "schema": schema}
    return kept


def _content(content: Schema) -> Schema:
    return {JSON_TYPE: {"schema": content[JSON_TYPE]["schema"]}}


def _used(paths: Schema, schemas: Schema) -> list[str]:
    """The names of the schemas that the paths reference, directly or indirectly."""
    names: set[str] = set()
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _references(schemas[name])
    return sorted(names)


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)

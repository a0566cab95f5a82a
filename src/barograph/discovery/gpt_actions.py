"""The keyless OpenAPI document for GPT actions: free reads only, within their limits (pure)."""

from collections.abc import Iterator

from barograph.discovery.operations import FREE_DESCRIPTION
from barograph.kit.wire import Schema

TAGS = frozenset({"discovery", "market", "briefs", "guides", "signals", "status"})
"""Free JSON endpoints. Badges and digests are left out."""

IMPOSSIBLE = frozenset({"401", "405", "414", "503"})
"""Statuses that no action gets, because it sends only described requests and no key."""


def gpt_schema(schema: Schema) -> Schema:
    """Reduce the OpenAPI document of the whole interface.

    Actions neither send nor read header fields, so keys and caching are left out.
    """
    paths = {
        path: {"get": _operation(item["get"])}
        for path, item in schema["paths"].items()
        if "get" in item and TAGS.issuperset(item["get"]["tags"])
    }
    schemas = schema["components"]["schemas"]
    return {
        "openapi": schema["openapi"],
        "info": {**schema["info"], "description": FREE_DESCRIPTION},
        "servers": schema["servers"],
        "tags": [each for each in schema["tags"] if each["name"] in TAGS],
        "paths": paths,
        "components": {"schemas": {name: schemas[name] for name in _used(paths, schemas)}},
    }


def _operation(operation: Schema) -> Schema:
    parameters = [
        {name: value for name, value in each.items() if name != "example"}
        for each in operation.get("parameters", ())
        if each.get("in") == "query"
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


def _content(content: Schema) -> Schema:
    return {media: {"schema": each["schema"]} for media, each in content.items()}


def _used(paths: Schema, schemas: Schema) -> list[str]:
    """The names of the schemas that the paths reference, directly or indirectly."""
    found: set[str] = set()
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return sorted(found)


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)

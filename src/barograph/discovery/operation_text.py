"""An operation of the described interface, in words (pure)."""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from barograph.kit.wire import JSON_TYPE

Schema = dict[str, Any]

DEEPEST = 12
COMMON_ERRORS = {"405", "408", "413", "414"}


def operation_words(path: str, method: str, operation: Schema, base_url: str) -> str:
    """What it is for, what it takes, an address that can be called, and how it fails."""
    lines = [f"### {method} {path}", "", f"{operation['summary']}. {operation['description']}", ""]
    lines += _taken(operation)
    lines.append(f"- Example: {method} {base_url}{example_target(path, operation)}")
    return "\n".join([*lines, *_errors(operation), ""])


def short_words(
    path: str, method: str, operation: Schema, base_url: str, twins: Sequence[str]
) -> str:
    """The same in short, with an example only where the path alone is none; and its twins."""
    text = f"### {method} {path}\n\n{operation['summary']}. {operation['description']}\n"
    target = example_target(path, operation)
    example = [f"- Example: {method} {base_url}{target}"] if target != path else []
    lines = [*_taken(operation), *example, *twins, *_errors(operation)]
    return "\n".join([text, *lines, ""] if lines else [text])


def _taken(operation: Schema) -> list[str]:
    asked = [each for each in operation.get("parameters", ()) if "name" in each]
    lines = [f"- `{each['name']}` ({_parameter(each)}): {each['description']}" for each in asked]
    if "requestBody" in operation:
        body = operation["requestBody"]["content"][JSON_TYPE]["example"]
        lines.append(f"- Body, as application/json: `{_compact(body)}`")
    return lines


def _errors(operation: Schema) -> list[str]:
    errors = [
        f"{status} {response['description'].rstrip('.')}"
        for status, response in operation["responses"].items()
        # Errors that every path shares are described once.
        if int(status) >= 400 and status not in COMMON_ERRORS  # noqa: PLR2004
    ]
    return [f"- Errors: {'; '.join(errors)}"] if errors else []


def body_words(operation: Schema, schemas: Schema) -> str:
    """The members of the body of success, and an example of it; nothing for a picture."""
    status = next(each for each in operation["responses"] if each.startswith("2"))
    body = operation["responses"][status]["content"].get(JSON_TYPE)
    if body is None:
        return ""
    members = [
        f"- `{path}` ({kind}){f': {text}' if text else ''}"
        for path, kind, text in members_of(body["schema"], schemas)
    ]
    example = ["", "```json", _compact(body["example"]), "```"] if "example" in body else []
    return "\n".join([f"Body of {status}:", "", *members, *example, ""])


def members_of(schema: Schema, schemas: Schema) -> Iterator[tuple[str, str, str]]:
    """Every member of a body with its path, its JSON type and what is said about it."""
    yield from _members("", schema, schemas, DEEPEST)


def _members(
    path: str, schema: Schema, schemas: Schema, depth: int
) -> Iterator[tuple[str, str, str]]:
    schema = _resolved(schema, schemas)
    for choice in schema.get("anyOf", ()):
        yield from _members(path, choice, schemas, depth)
    if "items" in schema:
        yield from _members(f"{path}[]", schema["items"], schemas, depth)
    for name, member in schema.get("properties", {}).items() if depth else ():
        inner = f"{path}.{name}" if path else name
        yield inner, type_of(member, schemas), member.get("description", "")
        yield from _members(inner, member, schemas, depth - 1)


def type_of(schema: Schema, schemas: Schema) -> str:
    """The JSON type, such as `number or null` or `array of string`."""
    schema = _resolved(schema, schemas)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(each, schemas) for each in schema["anyOf"]))
    if "const" in schema:
        return f"{schema.get('type', 'value')} {json.dumps(schema['const'])}"
    if "enum" in schema:
        return f"{schema['type']}, one of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "array":
        return f"array of {type_of(schema['items'], schemas)}"
    return str(schema.get("type", "any"))


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else schemas[reference.rpartition("/")[2]]


def _parameter(parameter: Schema) -> str:
    schema = parameter["schema"]
    words = [parameter["in"], "required" if parameter["required"] else "optional"]
    words.append(type_of(schema, {}))
    if "minimum" in schema:
        words.append(f"from {schema['minimum']}")
    if "maximum" in schema:
        words.append(f"to {schema['maximum']}")
    if "pattern" in schema:
        words.append(schema["pattern"])
    if "default" in schema:
        words.append(f"default {schema['default']}")
    return ", ".join(words)


def example_target(path: str, operation: Schema) -> str:
    """A path and query that can be called as they stand."""
    query: dict[str, Any] = {}
    for each in operation.get("parameters", ()):
        schema = each.get("schema", {})
        value = each.get("example", schema.get("default", (schema.get("enum") or [None])[0]))
        if each.get("in") == "path":
            path = path.replace(f"{{{each['name']}}}", str(value))
        elif each.get("in") == "query" and value is not None:
            query[each["name"]] = value
    return f"{path}?{urlencode(query)}" if query else path


def _compact(body: object) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))

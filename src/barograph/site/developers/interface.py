"""The endpoints on the developer page (pure), read from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from barograph.discovery.llms import example_target, type_of
from barograph.discovery.operations import STREAM

Schema = dict[str, Any]

COMMON_STATUSES = {"304", "405", "414"}
"""The same for every free endpoint, so the page describes them once."""

_MOST_LINES = 60
_CODE = Markup("<code>{}</code>")


class Parameter(NamedTuple):
    """One parameter."""

    name: str
    place: str
    kind: str
    is_required: bool
    default: str | None
    limits: str
    text: Markup


class DocumentedEndpoint(NamedTuple):
    """One operation."""

    method: str
    path: str
    target: str
    """An example path and query."""

    name: str
    tag: str
    summary: str
    text: Markup
    credentials: tuple[str, ...]
    """Alternative header fields; empty for a free endpoint."""

    parameters: tuple[Parameter, ...]
    body: str | None
    """An example request body."""

    responses: Mapping[str, Markup]
    """The meaning of each status."""

    @property
    def opens(self) -> bool:
        """Whether `target` works without credentials, whatever this instance has recorded."""
        is_certain = (
            all(
                parameter.place != "path" and not parameter.is_required
                for parameter in self.parameters
            )
            and "404" not in self.responses
        )
        return self.method == "GET" and not self.credentials and is_certain

    def command(self, base_url: str) -> str:
        """The call with curl."""
        words = ["curl"] if self.method in {"GET", "POST"} else ["curl", "-X", self.method]
        if self.tag == STREAM:
            words.append("-N")  # shows each event at once
        if self.credentials:
            words.append(f"-H '{self.credentials[0]}'")
        if self.body is not None:
            # MCP requires both; other endpoints ignore `Accept`.
            words += ["-H 'Content-Type: application/json'", "-H 'Accept: application/json'"]
            words.append(f"-d '{self.body}'")
        return " ".join([*words, f"'{base_url}{self.target}'"])


class EndpointGroup(NamedTuple):
    """The endpoints of one tag."""

    tag: str
    text: Markup
    endpoints: tuple[DocumentedEndpoint, ...]


def groups(schema: Schema) -> list[EndpointGroup]:
    """All endpoints by their first tag, in the order of the tags."""
    endpoints = list(_endpoints(schema))
    return [
        EndpointGroup(
            tag["name"],
            marked(tag["description"]),
            tuple(each for each in endpoints if each.tag == tag["name"]),
        )
        for tag in schema["tags"]
    ]


def marked(text: str) -> Markup:
    """A text with its `code` as HTML."""
    words, *rest = (escape(part) for part in text.split("`"))
    for part, is_code in zip(rest, cycle((True, False)), strict=False):
        words += _CODE.format(part) if is_code else part
    return words


def pretty(body: bytes) -> str:
    """A JSON body with indentation, truncated if it is long."""
    lines = json.dumps(json.loads(body), ensure_ascii=False, indent=2).splitlines()
    return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "…"])


def _endpoints(schema: Schema) -> Iterator[DocumentedEndpoint]:
    schemes = schema["components"]["securitySchemes"]
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            yield DocumentedEndpoint(
                method=method.upper(),
                path=path,
                target=example_target(path, operation),
                name=operation["operationId"],
                tag=operation["tags"][0],
                summary=operation["summary"],
                text=marked(operation["description"]),
                credentials=tuple(_credentials(operation, schemes)),
                parameters=tuple(_parameters(operation, schema["components"]["schemas"])),
                body=_body(operation),
                responses=_responses(operation),
            )


def _credentials(operation: Schema, schemes: Mapping[str, Schema]) -> Iterator[str]:
    for alternative in operation.get("security", ()):
        for name in alternative:
            scheme = schemes[name]
            if scheme["type"] == "http":
                yield "Authorization: Bearer <ACCESS_TOKEN>"
            else:
                yield f"{scheme['name']}: <{'KEY' if scheme['name'] == 'X-API-Key' else 'PROOF'}>"


def _parameters(operation: Schema, schemas: Schema) -> Iterator[Parameter]:
    for parameter in operation.get("parameters", ()):
        if "$ref" in parameter:
            continue  # `If-None-Match`, which the page describes once
        schema = parameter["schema"]
        default = schema.get("default")
        yield Parameter(
            name=parameter["name"],
            place=parameter["in"],
            kind=type_of(schema, schemas),
            is_required=parameter.get("required", False),
            default=None if default is None else str(default),
            limits=", ".join(_limits(schema)),
            text=marked(parameter["description"]),
        )


def _limits(schema: Schema) -> Iterator[str]:
    numbers = _range(schema.get("minimum"), schema.get("maximum"))
    lengths = _range(schema.get("minLength"), schema.get("maxLength"))
    if numbers:
        yield numbers
    if lengths:
        yield f"{lengths} characters"
    if "pattern" in schema:
        yield f"matching {schema['pattern']}"


def _range(lowest: int | None, highest: int | None) -> str:
    if lowest is None:
        return "" if highest is None else f"at most {highest}"
    return f"at least {lowest}" if highest is None else f"{lowest} to {highest}"


def _body(operation: Schema) -> str | None:
    if "requestBody" not in operation:
        return None
    (content,) = operation["requestBody"]["content"].values()
    return json.dumps(content["example"], ensure_ascii=False)


def _responses(operation: Schema) -> dict[str, Markup]:
    hidden = set() if operation["security"] else COMMON_STATUSES
    responses = sorted(operation["responses"].items())
    return {
        status: marked(each["description"]) for status, each in responses if status not in hidden
    }

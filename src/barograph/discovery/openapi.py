"""The whole interface as an OpenAPI 3.1 document.

FastAPI describes paths, parameters and bodies from the routes and their models. This module adds
texts, header fields, conditional requests, credentials, links and examples, and the operations of
`/api/mcp` and of the files that describe the interface.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.applications import Starlette

from barograph.briefs.documents import BRIEF_PAGES
from barograph.discovery.files import API_CATALOG_PATH, FILES, INDEX_PATH, OPENAPI_PATH
from barograph.discovery.mcp_description import MCP_PATH, SCHEMAS, mcp_operation
from barograph.discovery.operations import (
    ALERTS,
    ENTITLED,
    FREE_DESCRIPTION,
    KEYS,
    LINKS,
    MCP,
    PAID,
    STREAM,
    TABLE,
    TAGS,
    WEBHOOKS,
    text_of,
)
from barograph.entitlements.refusals import FEED_PATH
from barograph.guides.documents import GUIDE_PAGES
from barograph.kit.http import ApiRoute
from barograph.kit.lists import CSV_TYPE
from barograph.kit.request_limits import QUERY_TOO_LONG
from barograph.kit.wire import ERROR_SCHEMAS, JSON_TYPE, Schema, parameter, refusal
from barograph.signals.documents import DOCS_PATH

INTERFACE_VERSION = "1.0.0"
BEARER = "bearer"
PAYMENT_PROOF = "paymentProof"
API_KEY = "apiKey"
IF_NONE_MATCH = "If-None-Match"

PRIVATE = {ENTITLED, PAID}
KEYED = {ALERTS, WEBHOOKS}
NOT_READS = {*PRIVATE, *KEYED, KEYS, MCP, STREAM}
"""Tags of operations that are not free reads."""

SIGNALS = "signals"
DATED = {"market", "venues", "briefs", SIGNALS, "status"}
"""Tags of responses with `Last-Modified`."""

BASE_ADDRESS = "{base_url}"
"""The base address in `examples.json`."""

DEMO_ADDRESS = "https://demo.example"
"""The base address of briefs and guides in examples: this instance has others."""


def openapi_schema(app: Starlette, base_url: str, prices: Mapping[str, str]) -> Schema:
    """Describe the interface of the instance at `base_url`; `prices` are in USD by paid path."""
    docs = f"{base_url}{DOCS_PATH}"
    schema = get_openapi(
        title="Barograph API",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        routes=[
            APIRoute(route.path, route.endpoint, methods=route.methods, **route.description)
            for route in app.routes
            if isinstance(route, ApiRoute) and route.description
        ],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        servers=[{"url": base_url}],
        contact={"name": "Barograph", "url": docs},
        license_info={"name": _LICENSE, "url": docs},
    )
    schema["externalDocs"] = {"url": docs, "description": "For developers"}
    schema["components"] |= {
        "securitySchemes": _SCHEMES,
        "headers": FIELDS,
        "parameters": {IF_NONE_MATCH: _IF_NONE_MATCH},
    }
    bodies = schema["components"]["schemas"] | ERROR_SCHEMAS
    schema["components"]["schemas"] = dict(sorted(bodies.items())) | SCHEMAS
    schema["paths"] = dict(_with_tables(schema["paths"])) | {MCP_PATH: {"post": mcp_operation()}}
    schema["paths"] |= {file.path: {"get": file.operation()} for file in FILES}
    examples = load_examples(base_url)
    for path, item in schema["paths"].items():
        for operation in item.values():
            _complete(path, operation)
            _add_examples(operation, examples)
            if path in prices:
                price = {"mode": "fixed", "currency": "USD", "amount": prices[path]}
                operation["x-payment-info"] = {"price": price, "protocols": [{"x402": {}}]}
    return schema


def _with_tables(paths: Schema) -> Iterator[tuple[str, Schema]]:
    """The paths, and CSV at paths of its own: generated clients expect one type per operation."""
    for path, item in paths.items():
        yield path, item
        content = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if {JSON_TYPE, CSV_TYPE} <= content.keys():
            table = deepcopy(item["get"])
            table["operationId"] += TABLE
            del table["responses"]["200"]["content"][JSON_TYPE], content[CSV_TYPE]
            for each, names in (item["get"], {"format"}), (table, {"format", "limit", "cursor"}):
                each["parameters"] = [one for one in each["parameters"] if one["name"] not in names]
            yield f"{path}.csv", {"get": table}


def _complete(path: str, operation: Schema) -> None:
    """Add the text, credentials, common responses, header fields and links."""
    tags, responses = set(operation["tags"]), operation["responses"]
    responses.pop("422", None)  # FastAPI's own: we parse every parameter ourselves
    operation["summary"], operation["description"] = text_of(operation["operationId"])
    operation["security"] = []
    if tags & PRIVATE:
        operation["security"] = [{BEARER: []}] * (ENTITLED in tags) + [{PAYMENT_PROOF: []}]
    elif tags & KEYED:
        operation["security"] = [{API_KEY: []}]
    elif not tags & NOT_READS:
        reference = {"$ref": f"#/components/parameters/{IF_NONE_MATCH}"}
        operation["parameters"] = [*operation.get("parameters", ()), reference]
        responses["304"] = {"description": "The `ETag` in `If-None-Match` is still current."}
    if not tags & PRIVATE:  # private endpoints describe their own 405 and have no 414
        responses["405"] = deepcopy(_METHOD_NOT_ALLOWED)
        responses.setdefault("414", deepcopy(_QUERY_TOO_LONG))
    for status, response in responses.items():
        names = field_names(path, tags, status)
        fields = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        response["headers"] = fields | response.get("headers", {})
    if operation["operationId"] in LINKS:
        responses["200"]["links"] = LINKS[operation["operationId"]]


class Examples(NamedTuple):
    """The examples, by operation ID."""

    answers: dict[str, dict[str, Any]]
    """Response bodies by status."""

    parameters: dict[str, dict[str, Any]]
    """Values by parameter."""

    requests: dict[str, Any]
    """Request bodies."""


def load_examples(base_url: str) -> Examples:
    """The examples with the base address of this instance."""
    text = (files("barograph.discovery") / "examples.json").read_text("utf-8")
    for folder in (BRIEF_PAGES, f"{GUIDE_PAGES}/"):
        text = text.replace(f"{BASE_ADDRESS}{folder}", f"{DEMO_ADDRESS}{folder}")
    return Examples(**json.loads(text.replace(BASE_ADDRESS, base_url)))


def _add_examples(operation: Schema, examples: Examples) -> None:
    name = operation["operationId"]
    name = name if name in examples.answers else name.removesuffix(TABLE)
    answers, values = examples.answers.get(name, {}), examples.parameters.get(name, {})
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            # Some bodies are JSON or a table; the table brings its own example.
            if status in answers and isinstance(answers[status], str) != ("json" in kind):
                content["example"] = answers[status]
    for each in operation.get("parameters", ()):
        if each.get("name") in values:
            each["example"] = values[each["name"]]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content.setdefault("example", examples.requests.get(name))


RATE_LIMIT = (
    *("RateLimit-Policy", "RateLimit"),
    *("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
)
_OF_REFUSALS = {
    "401": "WWW-Authenticate",
    "402": "PAYMENT-REQUIRED",
    "405": "Allow",
    "429": "Retry-After",
    "503": "Retry-After",
}


def field_names(path: str, tags: set[str], status: str) -> list[str]:
    """The header fields of a response."""
    if status in {"200", "304"} and not tags & NOT_READS:
        return _of_reads(path, tags)
    headers = ["Cache-Control"]
    if status in _OF_REFUSALS:
        headers.append(_OF_REFUSALS[status])
    if status in {"200", "402"} and path.startswith("/api/x402/"):
        headers.append("PAYMENT-RESPONSE")
        if status == "200" and path != FEED_PATH:
            headers.append("Link")
    of_limits = {"429": not tags & PRIVATE, "202": KEYS in tags, "401": bool(tags & KEYED)}
    if of_limits.get(status):
        headers += RATE_LIMIT
    return headers


_COUNTED = (
    *("/incidents", "/events", "/events/{digest}", "/stances/{kind}", "/briefs/{slug}"),
    *("/history/checkpoint", "/history/{kind}"),
)
"""Ends of paths whose reads count against the render limit."""


def _of_reads(path: str, tags: set[str]) -> list[str]:
    headers = ["Cache-Control", "ETag"]
    if tags & DATED or path.endswith(".gz"):
        headers.append("Last-Modified")
    if SIGNALS in tags or path.endswith(_COUNTED):
        headers += RATE_LIMIT
    if path in {INDEX_PATH, OPENAPI_PATH, API_CATALOG_PATH}:
        headers.append("Link")
    if "series" in tags and path.endswith(".csv"):
        headers.append("Content-Disposition")
    if path.endswith((".csv", ".gz")):
        headers.append("Accept-Ranges")
    if "series" in tags:
        headers += RATE_LIMIT
    return headers


def _field(description: str, example: str, *, always: bool = True) -> Schema:
    schema = {"type": "string"}
    return {"description": description, "required": always, "schema": schema, "example": example}


_sometimes = partial(_field, always=False)


FIELDS: dict[str, Schema] = {
    "Cache-Control": _field(
        "How long the response may be cached. Free data is never cached beyond its freshness "
        "limit. Errors and private responses are not cached.",
        "public, max-age=5, stale-while-revalidate=10, stale-if-error=0",
    ),
    "ETag": _field(
        "Identifies this body; send it back in `If-None-Match`.", '"pZGm1Av0IEBKARczz7ex"'
    ),
    "Last-Modified": _sometimes(
        "The time of the data, if it has one.", "Sun, 15 Nov 2026 10:00:00 GMT"
    ),
    "Link": _sometimes(
        "The descriptions of the interface (RFC 8288, RFC 8631); of a recorded stance, its proof.",
        '</openapi.json>; rel="service-desc"; type="application/json"',
    ),
    "Content-Disposition": _field("A file name.", 'inline; filename="BTC-funding.csv"'),
    "Accept-Ranges": _sometimes("You may request a part with `Range`.", "bytes"),
    "Allow": _field("The methods of this path.", "GET, HEAD, OPTIONS"),
    "WWW-Authenticate": _field("How to send a credential.", 'Bearer realm="Barograph Feed"'),
    "Retry-After": _sometimes("Seconds to wait, if known.", "15"),
    "PAYMENT-REQUIRED": _field("The body in base64.", "eyJ4NDAyVmVyc2lvbiI6Mn0="),
    "PAYMENT-RESPONSE": _sometimes(
        "The receipt: JSON with success, transaction, network and payer, in base64. With 402, "
        "success is false, and errorReason says why your payment was not settled.",
        "eyJzdWNjZXNzIjp0cnVlfQ==",
    ),
    "RateLimit-Policy": _sometimes(
        "The limit: `q` requests in any `w` seconds. Cached downloads are not counted and have "
        "none of the rate-limit fields.",
        '"anon";q=10;w=3600',
    ),
    "RateLimit": _sometimes(
        "`r` requests are left; one more is available in `t` seconds.", '"anon";r=9;t=3600'
    ),
    "X-RateLimit-Limit": _sometimes("The limit.", "10"),
    "X-RateLimit-Remaining": _sometimes("How many requests are left.", "9"),
    "X-RateLimit-Reset": _sometimes(
        "When one more request is available, in Unix seconds.", "1794725183"
    ),
}

_LICENSE = "Data: free for non-commercial use, attribution appreciated"
_DESCRIPTION = (
    f"{FREE_DESCRIPTION} Errors of subscriber and paid endpoints also have a `message`, except "
    "402, which is an x402 v2 object."
)
_SCHEMES = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token from the identity provider. Its user needs an active Feed.",
    },
    PAYMENT_PROOF: {
        "type": "apiKey",
        "in": "header",
        "name": "PAYMENT-SIGNATURE",
        "description": "An x402 v2 payment proof in base64, over the terms in the 402 of that "
        "path. `X-PAYMENT` works too. Only /api/x402/feed sells Feed; at the other subscriber "
        "endpoints a proof identifies a wallet that has Feed. With the first paid request, send an "
        "`Idempotency-Key` of 16 to 128 letters, digits, `-` and `_`, or x402's "
        "`payment-identifier`. The proof that paid for a stance gets the same version again. A "
        "repeated purchase of Feed needs the same key, because a settled proof is public on the "
        "chain.",
    },
    API_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "A free personal key. See POST /api/v1/keys.",
    },
}
_METHOD_NOT_ALLOWED = refusal(
    "This method is not supported here; see `Allow`.", example="method not allowed"
)
_QUERY_TOO_LONG = refusal(
    "The query is too long or has too many parameters.", example=QUERY_TOO_LONG
)
# No example, because Swagger UI would send it with every first request.
_IF_NONE_MATCH = parameter(
    "header",
    IF_NONE_MATCH,
    'The `ETag` of the response you have, with its quotes, such as `"pZGm1Av0IEBKARczz7ex"`. If it '
    "is still current, the response is 304.",
)

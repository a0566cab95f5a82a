"""The whole interface as an OpenAPI 3.1 document.

The framework describes paths, parameters and bodies from the routes and their models; here it
gets what the framework does not know: header fields, conditional requests, credentials, texts,
examples, and what is answered without a model: the descriptions themselves and `/api/mcp`.
"""

import json
from copy import deepcopy
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.applications import Starlette

from barograph.briefs.documents import PAGE_FOLDER as BRIEFS_FOLDER
from barograph.discovery.deprecation import Deprecations
from barograph.discovery.files import FILES, INDEX_PATH, MCP_PATH, OPENAPI_PATH
from barograph.discovery.mcp_description import SCHEMAS, mcp_operation
from barograph.discovery.operations import (
    DATA,
    ENTITLED,
    FREE_DESCRIPTION,
    KEYS,
    LINKS,
    MCP,
    PAID,
    TAGS,
    text_of,
)
from barograph.guides.documents import PAGES_PATH as GUIDES_PAGE
from barograph.kit.http import ApiRoute
from barograph.kit.request_limits import QUERY_TOO_LONG
from barograph.kit.wire import ERROR_SCHEMAS, refusal
from barograph.signals.documents import DOCS_PATH

PRIVATE = {ENTITLED, PAID}
NOT_READS = {*PRIVATE, KEYS, MCP}
"""Tags of what is no free read."""

SIGNALS = "signals"
DATED = {"market", "briefs", SIGNALS, "status"}
"""Tags of data with a time of its own; everything else has none to send."""

LINKING = {INDEX_PATH, OPENAPI_PATH}
"""Where a program that knows nothing else begins."""

X402_FOLDER = "/api/x402/"
PROOF = "/proof"
"""How the paths of history proofs end; each proof is charged."""

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


def names_of(path: str, tags: set[str], status: str) -> list[str]:
    """The fields that an answer carries, by name."""
    if status in {"200", "304"} and not tags & NOT_READS:
        return _of_reads(path, tags)
    found = ["Cache-Control"]
    if status in _OF_REFUSALS:
        found.append(_OF_REFUSALS[status])
    if status == "200" and path.startswith(X402_FOLDER):
        found.append("PAYMENT-RESPONSE")
    if (status == "429" and not tags & PRIVATE) or (KEYS in tags and status == "202"):
        found += RATE_LIMIT
    return found


def _of_reads(path: str, tags: set[str]) -> list[str]:
    found = ["Cache-Control", "ETag"]
    if tags & DATED:
        found.append("Last-Modified")
    if SIGNALS in tags or path.endswith(PROOF):  # counted, also where nothing is new
        found += RATE_LIMIT
    if path in LINKING:
        found.append("Link")
    if DATA in tags:
        found += ["Content-Disposition", *RATE_LIMIT]
    return found


def _field(description: str, example: str, *, always: bool = True) -> dict[str, Any]:
    return {
        "description": description,
        "required": always,
        "schema": {"type": "string"},
        "example": example,
    }


FIELDS: dict[str, dict[str, Any]] = {
    "Cache-Control": _field(
        "How long the answer may be kept: free data never past its freshness bound, errors and "
        "private answers not at all.",
        "public, max-age=5, stale-while-revalidate=10",
    ),
    "ETag": _field("Names these bytes; send it back in `If-None-Match`.", '"pZGm1Av0IEBKARczz7ex"'),
    "Last-Modified": _field(
        "The data's own time, where it has one.", "Sun, 15 Nov 2026 10:00:00 GMT", always=False
    ),
    "Link": _field(
        "The descriptions of the interface (RFC 8288, RFC 8631).",
        '</openapi.json>; rel="service-desc"; type="application/json"',
    ),
    "Content-Disposition": _field(
        "A name to save the series under.", 'inline; filename="BTC-funding-7d.csv"'
    ),
    "Allow": _field("The methods of this path.", "GET, HEAD, OPTIONS"),
    "WWW-Authenticate": _field("How to present a credential.", 'Bearer realm="Barograph Feed"'),
    "Retry-After": _field("Seconds to wait, where that is known.", "15", always=False),
    "PAYMENT-REQUIRED": _field("The body once more, in base64.", "eyJ4NDAyVmVyc2lvbiI6Mn0="),
    "PAYMENT-RESPONSE": _field(
        "The receipt of a settled payment: JSON with success, transaction, network and payer, in "
        "base64.",
        "eyJzdWNjZXNzIjp0cnVlfQ==",
        always=False,
    ),
    "RateLimit-Policy": _field(
        "The limit: `q` requests in any `w` seconds. Downloads carry it and the four fields below "
        "only if they had to be rendered; a cached download is not counted.",
        '"anon";q=10;w=3600',
        always=False,
    ),
    "RateLimit": _field(
        "`r` requests are left; one more is available in `t` seconds.",
        '"anon";r=9;t=3600',
        always=False,
    ),
    "X-RateLimit-Limit": _field("The limit.", "10", always=False),
    "X-RateLimit-Remaining": _field("How many requests are left.", "9", always=False),
    "X-RateLimit-Reset": _field(
        "When one more request is available, in Unix seconds.", "1794725183", always=False
    ),
}


BASE_ADDRESS = "{base_url}"
"""What stands for the base address in the file."""

ELSEWHERE = "https://demo.example"
"""Whose briefs and guides the examples name: those of an instance are its own."""


class Examples(NamedTuple):
    """What is shown."""

    answers: dict[str, dict[str, Any]]
    """Bodies by the name of the operation and by status."""

    parameters: dict[str, dict[str, Any]]
    """Values by the name of the operation and of the parameter."""

    requests: dict[str, Any]
    """Bodies of requests by the name of the operation."""


def load_examples(base_url: str) -> Examples:
    """The examples as the instance at `base_url` would give them.

    What begins with its address is there; pages that only the demo had are those of `ELSEWHERE`.
    """
    text = (files("barograph.discovery") / "examples.json").read_text("utf-8")
    for folder in (BRIEFS_FOLDER, f"{GUIDES_PAGE}/"):
        text = text.replace(f"{BASE_ADDRESS}{folder}", f"{ELSEWHERE}{folder}")
    return Examples(**json.loads(text.replace(BASE_ADDRESS, base_url)))


INTERFACE_VERSION = "1.0.0"
BEARER = "bearer"
PAYMENT_PROOF = "paymentProof"
IF_NONE_MATCH = "If-None-Match"

Schema = dict[str, Any]


def openapi_schema(app: Starlette, base_url: str, deprecations: Deprecations) -> Schema:
    """Describe the interface of the instance at `base_url`."""
    schema = get_openapi(
        title="Barograph",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        routes=[
            APIRoute(each.path, each.endpoint, methods=each.methods, **each.description)
            for each in app.routes
            if isinstance(each, ApiRoute) and each.description
        ],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        servers=[{"url": base_url}],
        contact={"name": "Barograph", "url": f"{base_url}{DOCS_PATH}"},
        license_info={"name": _LICENSE, "url": f"{base_url}{DOCS_PATH}"},
    )
    schema["externalDocs"] = {"url": f"{base_url}{DOCS_PATH}", "description": "For developers"}
    schema["components"] |= {
        "securitySchemes": _SCHEMES,
        "headers": FIELDS,
        "parameters": {IF_NONE_MATCH: _IF_NONE_MATCH},
    }
    bodies = schema["components"]["schemas"] | ERROR_SCHEMAS
    schema["components"]["schemas"] = dict(sorted(bodies.items())) | SCHEMAS
    schema["paths"] |= {MCP_PATH: {"post": mcp_operation()}}
    schema["paths"] |= {file.path: {"get": file.operation()} for file in FILES}
    examples = load_examples(base_url)
    for path, item in schema["paths"].items():
        for operation in item.values():
            _complete(path, operation, examples)
            if path in deprecations:
                operation["deprecated"] = True
    return schema


def _complete(path: str, operation: Schema, examples: Examples) -> None:
    # The framework's own 422 never occurs, because every parameter is read by hand.
    operation["responses"].pop("422", None)
    tags = set(operation["tags"])
    text = text_of(operation["operationId"])
    if text is not None:
        operation["description"] = text
    operation["security"] = []
    if tags & PRIVATE:
        operation["security"] = [{BEARER: []}] * (ENTITLED in tags) + [{PAYMENT_PROOF: []}]
    elif not tags & NOT_READS:
        reference = {"$ref": f"#/components/parameters/{IF_NONE_MATCH}"}
        operation["parameters"] = [*operation.get("parameters", ()), reference]
        operation["responses"]["304"] = {"description": "What `If-None-Match` names still holds."}
    if not tags & PRIVATE:  # which name theirs by a code
        operation["responses"]["405"] = deepcopy(_METHOD_NOT_ALLOWED)
        operation["responses"].setdefault("414", deepcopy(_QUERY_TOO_LONG))
    for status, response in operation["responses"].items():
        fields = {
            name: {"$ref": f"#/components/headers/{name}"} for name in names_of(path, tags, status)
        }
        response["headers"] = fields | response.get("headers", {})
    if operation["operationId"] in LINKS:
        operation["responses"]["200"]["links"] = LINKS[operation["operationId"]]
    _show(operation, examples)


def _show(operation: Schema, examples: Examples) -> None:
    """Put the examples where they belong."""
    answers = examples.answers.get(operation["operationId"], {})
    for status, response in operation["responses"].items():
        for content in response.get("content", {}).values():
            if status in answers:
                content["example"] = answers[status]
    values = examples.parameters.get(operation["operationId"], {})
    for parameter in operation.get("parameters", ()):
        if parameter.get("name") in values:
            parameter["example"] = values[parameter["name"]]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = examples.requests[operation["operationId"]]


_LICENSE = "Data: free for non-commercial use, attribution appreciated"
_DESCRIPTION = (
    f"{FREE_DESCRIPTION} Those of entitled and paid endpoints have a `message` as well, but for a "
    "402, which is an x402 v2 object."
)
_SCHEMES = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token of the identity provider, of a user with an active Feed.",
    },
    PAYMENT_PROOF: {
        "type": "apiKey",
        "in": "header",
        "name": "PAYMENT-SIGNATURE",
        "description": "An x402 v2 payment proof in base64, over what the 402 of that path asks "
        "for. `X-PAYMENT` is read too. Feed is bought at /api/x402/feed alone; with a proof at "
        "other entitled paths a wallet that has Feed shows who it is. Send an `Idempotency-Key` of "
        "16 to 128 letters, digits, `-` and `_`, or x402's `payment-identifier`, with the first "
        "paid request: a repeat needs the same one, because a settled proof is public on the "
        "chain.",
    },
}
_METHOD_NOT_ALLOWED = refusal(
    "Another method; `Allow` lists those of this path.", example="method not allowed"
)
_QUERY_TOO_LONG = refusal(
    "The query is too long or has too many parameters.", example=QUERY_TOO_LONG
)
_IF_NONE_MATCH = {
    "name": IF_NONE_MATCH,
    "in": "header",
    "required": False,
    # No example: Swagger UI would send it with everybody's first request.
    "description": "The `ETag` of what is there already, with its quotes, as in "
    '`"pZGm1Av0IEBKARczz7ex"`; the answer is 304 when it still holds.',
    "schema": {"type": "string"},
}

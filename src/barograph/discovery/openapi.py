"""The whole interface as an OpenAPI 3.1 document.

The framework describes paths, parameters and bodies from the routes and their models; here it
gets what the framework does not know: header fields, conditional requests, credentials, texts,
examples, and what is answered without a model: the descriptions themselves and `/api/mcp`.
"""

from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from barograph.discovery.answer_fields import FIELDS, NOT_READS, PRIVATE, names_of
from barograph.discovery.deprecation import Deprecations
from barograph.discovery.examples import Examples, load_examples
from barograph.discovery.files import FILES
from barograph.discovery.mcp import SCHEMAS, mcp_operation
from barograph.discovery.next_steps import LINKS
from barograph.discovery.operations import ENTITLED, FREE_DESCRIPTION, TAGS, text_of
from barograph.discovery.paths import MCP_PATH
from barograph.kit.openapi import ERROR_SCHEMAS, refusal
from barograph.kit.request_limits import QUERY_TOO_LONG
from barograph.signals.documents import DOCS_PATH

INTERFACE_VERSION = "1.0.0"
BEARER = "bearer"
PAYMENT_PROOF = "paymentProof"
IF_NONE_MATCH = "If-None-Match"

Schema = dict[str, Any]


def openapi_schema(app: FastAPI, base_url: str, deprecations: Deprecations) -> Schema:
    """Describe the interface of the instance at `base_url`."""
    schema = get_openapi(
        title="Barograph",
        version=INTERFACE_VERSION,
        description=_DESCRIPTION,
        routes=app.routes,
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

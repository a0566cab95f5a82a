"""Pieces of `/openapi.json` that routes describe themselves with.

Errors refer to two bodies that stand there once: for a model that a route names itself the
framework builds a field for each route and status, and the application takes twice the time to
start.
"""

from typing import Any

from barograph.kit.documents import JSON
from barograph.kit.wire import CodedErrorBody, ErrorBody

JSON_TYPE = JSON.decode()

ERROR_SCHEMAS: dict[str, Any] = {
    # Both are flat: a nested body would be written as a reference that leads nowhere there.
    body.__name__: body.model_json_schema(mode="serialization")
    for body in (ErrorBody, CodedErrorBody)
}
"""What the references refer to."""


def refusal(
    description: str, headers: dict[str, Any] | None = None, *, example: str | None = None
) -> dict[str, Any]:
    """An error of a free path."""
    answer = json_answer(description, ErrorBody.__name__)
    if example is not None:
        answer["content"][JSON_TYPE]["example"] = {"error": example}
    return answer if headers is None else answer | {"headers": headers}


def coded_refusal(description: str) -> dict[str, Any]:
    """An error of an entitled or paid path, which has a code."""
    return json_answer(description, CodedErrorBody.__name__)


def json_answer(description: str, schema: str) -> dict[str, Any]:
    """An answer whose body is JSON of a schema that stands in the document."""
    return {"description": description, "content": json_content(schema)}


def json_content(schema: str) -> dict[str, Any]:
    """A body of JSON by the name of its schema."""
    return {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

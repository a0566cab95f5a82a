"""How errors are described in `/openapi.json`.

By references to two bodies that stand there once: of a model that a route names itself the
framework makes another for every route, and that was most of the work of putting the service
together.
"""

from typing import Any

from barograph.kit.wire import CodedErrorBody, ErrorBody, WireModel

JSON_TYPE = "application/json"

ERROR_SCHEMAS: dict[str, Any] = {
    body.__name__: body.model_json_schema(mode="serialization")
    for body in (ErrorBody, CodedErrorBody)
}
"""What the references refer to."""


def refusal(description: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    """An error of a free path."""
    return _described(ErrorBody, description, headers)


def coded_refusal(description: str) -> dict[str, Any]:
    """An error of an entitled or paid path, which has a code."""
    return _described(CodedErrorBody, description)


def json_content(schema: str) -> dict[str, Any]:
    """A body of JSON by the name of its schema."""
    return {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _described(
    body: type[WireModel], description: str, headers: dict[str, Any] | None = None
) -> dict[str, Any]:
    answer = {"description": description, "content": json_content(body.__name__)}
    return answer if headers is None else answer | {"headers": headers}

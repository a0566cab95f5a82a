"""The base class of every JSON body, and how OpenAPI describes error bodies."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from barograph.kit.documents import JSON


def _publish(schema: dict[str, Any]) -> None:
    """Publish a looser schema than the model, because a later version may add members.

    Some generated clients compare a boolean `const` with a string and refuse every body.
    """
    schema.pop("additionalProperties", None)
    for member in schema["properties"].values():
        if isinstance(member.get("const"), bool):
            del member["const"]


class WireModel(BaseModel):
    """A JSON body: no unexpected members, and members keep their order."""

    # A nullable member is always present, and the schema says so.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra=_publish,
        json_schema_serialization_defaults_required=True,
    )

    def encode(self) -> bytes:
        """The body as compact UTF-8 bytes.

        `model_dump_json` would build a string first.
        """
        return self.__pydantic_serializer__.to_json(self)


class ErrorBody(WireModel):
    """The body of every error on a free path."""

    error: str


class CodedErrorBody(WireModel):
    """The body of every error on a subscriber or paid endpoint."""

    error: str
    """A code for programs."""

    message: str
    """A sentence for people."""


JSON_TYPE = JSON.decode()

ERROR_SCHEMAS: dict[str, Any] = {
    # Both are flat: a nested model would produce a reference that doesn't resolve here.
    body.__name__: body.model_json_schema(mode="serialization")
    for body in (ErrorBody, CodedErrorBody)
}
"""The OpenAPI components of both bodies."""


def refusal(
    description: str, headers: dict[str, Any] | None = None, *, example: str | None = None
) -> dict[str, Any]:
    """Describe an error of a free path."""
    answer = json_answer(description, ErrorBody.__name__)
    if example is not None:
        answer["content"][JSON_TYPE]["example"] = {"error": example}
    return answer if headers is None else answer | {"headers": headers}


def coded_refusal(description: str) -> dict[str, Any]:
    """Describe an error of a subscriber or paid endpoint."""
    return json_answer(description, CodedErrorBody.__name__)


def json_answer(description: str, schema: str) -> dict[str, Any]:
    """Describe a JSON response by the name of its schema."""
    return {"description": description, "content": json_content(schema)}


def json_content(schema: str) -> dict[str, Any]:
    """Describe a JSON body by the name of its schema."""
    return {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

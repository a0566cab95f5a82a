"""The base of every JSON body."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from barograph.kit.documents import JSON


def _publish(schema: dict[str, Any]) -> None:
    """Loosen the published schema where the model is stricter than clients should be.

    A later version may add members. Generated clients check a boolean `const` against a string and
    refuse every body.
    """
    schema.pop("additionalProperties", None)
    for member in schema["properties"].values():
        if isinstance(member.get("const"), bool):
            del member["const"]


class WireModel(BaseModel):
    """A body: nothing unexpected gets in, and its members keep their order."""

    # A member that may be null is still always there, and the schema says so.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra=_publish,
        json_schema_serialization_defaults_required=True,
    )

    def encode(self) -> bytes:
        """The body as it goes over the wire: UTF-8 and compact.

        Straight to bytes: `model_dump_json` would make a string of them and back.
        """
        return self.__pydantic_serializer__.to_json(self)


class ErrorBody(WireModel):
    """What every answer other than success says."""

    error: str


class CodedErrorBody(WireModel):
    """What entitled and paid endpoints say in place of success."""

    error: str
    """The code, by which programs tell one from another."""

    message: str
    """One sentence for people."""


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

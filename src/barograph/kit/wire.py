"""The base of every JSON body."""

from typing import Any

from pydantic import BaseModel, ConfigDict


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

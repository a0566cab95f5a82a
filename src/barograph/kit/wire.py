"""The base of every JSON body, and how routes are described in `/openapi.json`."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from barograph.errors import InvalidRequest
from barograph.kit.documents import JSON
from barograph.kit.json import strict_object


def _publish(schema: dict[str, Any]) -> None:
    """Publish a looser schema than the model.

    A later version may add members. Generated clients compare a boolean `const` with a string and
    reject every body.
    """
    schema.pop("additionalProperties", None)
    for member in schema["properties"].values():
        if isinstance(member.get("const"), bool):
            del member["const"]


class WireModel(BaseModel):
    """A body with a fixed set of members in a fixed order."""

    # A member that may be null is still always present, and the schema says so.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra=_publish,
        json_schema_serialization_defaults_required=True,
    )

    def encode(self) -> bytes:
        """The body as compact UTF-8 JSON.

        Straight to bytes, because `model_dump_json` decodes them to a string first.
        """
        return self.__pydantic_serializer__.to_json(self)


M = TypeVar("M", bound=BaseModel)


def read_model(model: type[M], body: bytes, example: Mapping[str, Any]) -> M:
    """Read the body of a request.

    Raises:
        InvalidRequest: it isn't one JSON object with these members; the message has the example.
    """
    try:
        return model.model_validate(strict_object(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"; {place}: {first['msg']}"
        if first["type"] == "extra_forbidden":
            members = ", ".join(model.model_fields)
            raise InvalidRequest(f"unknown member `{place}`; the members are {members}") from None
    except ValueError:
        problem = ""
    raise InvalidRequest(f"the body must be a JSON object such as {json.dumps(example)}{problem}")


Notice = Annotated[str, Field(description="Information-only notice.")]


class ErrorBody(WireModel):
    """The body of an error."""

    error: str


class CodedErrorBody(WireModel):
    """The body of an error of a subscriber or paid endpoint."""

    error: str
    """The code, for programs."""

    message: str
    """A sentence for people."""


JSON_TYPE = JSON.decode()

Schema = dict[str, Any]

ERROR_SCHEMAS: dict[str, Schema] = {
    # Only flat bodies: a nested one would become a reference that resolves to nothing here.
    body.__name__: body.model_json_schema(mode="serialization")
    for body in (ErrorBody, CodedErrorBody)
}
"""Component schemas of the error bodies, which no route names as its model."""


def operation(
    operation_id: str,
    body: type[WireModel] | None,
    *parameters: Schema,
    responses: Mapping[int, str | Schema] | None = None,
    is_coded: bool = False,
) -> dict[str, Any]:
    """The arguments with which FastAPI describes a route in `/openapi.json`.

    Its summary and description are in `discovery/operations.py`. `parameters` are documentation
    only: each endpoint parses its own request, because FastAPI accepts other spellings and answers
    422. A text in `responses` describes an error; `is_coded` errors have a code and a message.
    """
    refused = coded_refusal if is_coded else refusal
    described: dict[str, Any] = {
        "operation_id": operation_id,
        "response_model": body,
        "responses": {
            status: refused(answer) if isinstance(answer, str) else answer
            for status, answer in (responses or {}).items()
        },
    }
    if body is None:
        described["response_class"] = Response
    if parameters:
        described["openapi_extra"] = {"parameters": list(parameters)}
    return described


def parameter(
    place: Literal["query", "path", "header"],
    name: str,
    description: str,
    *,
    is_required: bool = False,
    example: object = None,
    **schema: object,
) -> Schema:
    """A parameter in the OpenAPI document: a string unless `schema` names another type."""
    if place == "query" and not schema:
        schema = {"minLength": 1}  # endpoints refuse an empty value
    described = {
        "name": name,
        "in": place,
        "required": is_required or place == "path",
        "description": description,
        "schema": {"type": "string", **schema},
    }
    return described if example is None else described | {"example": example}


def refusal(
    description: str, headers: Schema | None = None, *, example: str | None = None
) -> Schema:
    """An error response of a free endpoint."""
    answer = json_answer(description, ErrorBody.__name__)
    if example is not None:
        answer["content"][JSON_TYPE]["example"] = {"error": example}
    return answer if headers is None else answer | {"headers": headers}


def coded_refusal(description: str) -> Schema:
    """An error response of a subscriber or paid endpoint."""
    return json_answer(description, CodedErrorBody.__name__)


def json_answer(description: str, schema: str) -> Schema:
    """A response whose JSON body has the component schema of this name."""
    return {"description": description, "content": json_content(schema)}


def json_content(schema: str) -> Schema:
    """The content of a JSON body with the component schema of this name."""
    return {JSON_TYPE: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

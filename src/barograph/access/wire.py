"""The bodies of key registration."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from barograph.errors import InvalidRequest
from barograph.kit.wire import WireModel

INVALID_BODY = (
    'the body must be a JSON object with exactly one member, such as {"email": "name@example.com"}'
)


class KeyRequest(BaseModel):
    """Who asks for a key."""

    model_config = ConfigDict(extra="forbid")

    email: Annotated[str, Field(max_length=254, description="Where the one-time link is sent.")]


class KeyAnswer(WireModel):
    """What everybody is answered, whether or not the address is known."""

    ok: Annotated[Literal[True], Field(description="Always true.")]
    message: str


def email_from_body(body: bytes) -> str:
    """Read the one member of a request's body.

    By hand, because a framework's parser takes the last of two members and guesses encodings.

    Raises:
        InvalidRequest: it is not one JSON object in UTF-8 with the one member `email`, a string.
    """
    try:
        members = json.loads(body.decode(), object_pairs_hook=_Members)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(INVALID_BODY) from error
    if not isinstance(members, _Members) or [name for name, _ in members] != ["email"]:
        raise InvalidRequest(INVALID_BODY)
    email = members[0][1]
    if not isinstance(email, str):
        raise InvalidRequest(INVALID_BODY)
    return email


class _Members(list[tuple[str, Any]]):
    """An object as it was written, with what comes twice; a JSON array is a plain list."""

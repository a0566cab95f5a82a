"""`POST /api/v1/keys`: ask for a personal key by e-mail."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from barograph.errors import BodyTimeout, BodyTooLong, InvalidRequest
from barograph.keys.email_address import parse_address
from barograph.keys.registration import ANSWER, Registrations
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import CORS, JSON, NO_STORE, Headers
from barograph.kit.http import error_response, is_cross_site, read_body
from barograph.kit.wire import JSON_TYPE, WireModel, refusal
from barograph.limits.callers import Gate
from barograph.limits.rate_limits import KEYS_PATH, Refusal, Standing, rate_limit_fields

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


KEYS_ALLOW = b"POST, OPTIONS"
MAX_BODY_BYTES = 4_096
RETRY_SECONDS = 5

ACCEPTED = KeyAnswer(ok=True, message=ANSWER).encode()
NO_MAIL = "this instance sends no mail, so keys come from its operator"
NOT_JSON = "send the body as JSON, with the header Content-Type: application/json"
OTHER_SITE = (
    "pages of other websites can't ask for keys: use the form on our own page, or send the request "
    "from a program"
)
AWAY = "keys cannot be handed out right now; try again shortly"


def key_routes(registrations: Registrations | None, gate: Gate, clock: Clock) -> APIRouter:
    """The route of `/api/v1/keys`; without registrations it says that there is no mail."""
    router = APIRouter(tags=["keys"])

    @router.post(
        KEYS_PATH,
        status_code=202,
        response_model=KeyAnswer,
        summary="Ask for a free personal key: a one-time link is mailed",
        operation_id="registerKey",
        responses={
            400: refusal("Malformed body or address."),
            403: refusal("A page of another website sent it.", example=OTHER_SITE),
            408: refusal("The body did not arrive in time.", example=BodyTimeout().message),
            413: refusal("The body is too long.", example=BodyTooLong(MAX_BODY_BYTES).message),
            415: refusal("The Content-Type is not application/json.", example=NOT_JSON),
            429: refusal("Too many registrations from one caller."),
            503: refusal("No mail is configured, or try again."),
        },
        openapi_extra={"requestBody": _REQUEST_BODY},
    )
    async def register_key(request: Request) -> Response:
        if registrations is None:
            return error_response(503, NO_MAIL)
        if is_cross_site(request.scope["headers"], registrations.base_url):
            return error_response(403, OTHER_SITE)
        # Otherwise a page could send JSON as text/plain, which needs no preflight.
        if _media_type(request) != JSON:
            return error_response(415, NOT_JSON)
        try:
            standing = await register(request, email_from_body, registrations, gate)
        except Refusal as refusal:
            return error_response(refusal.status, refusal.message, *refusal.fields(clock()))
        except DatabaseUnavailable:
            return error_response(503, AWAY, (b"retry-after", b"%d" % RETRY_SECONDS))
        return _accepted(rate_limit_fields(standing, clock()))

    return router


async def register(
    request: Request,
    email_from: Callable[[bytes], str],
    registrations: Registrations,
    gate: Gate,
) -> Standing:
    """Mail a link to the address in a request's body, and charge the caller for it.

    A request that is malformed or can't be stored is not charged.

    Raises:
        BodyTimeout, BodyTooLong: the body did not arrive in time, or is too long.
        InvalidRequest: it holds no address.
        TooManyRequests: the caller's limit is used up.
        DatabaseUnavailable: nothing will be mailed.
    """
    address = parse_address(email_from(await read_body(request, MAX_BODY_BYTES)))
    return await registrations.request(address, gate.caller(request.scope))


def _media_type(request: Request) -> bytes:
    """The type of the body without its parameters."""
    given = [value for name, value in request.scope["headers"] if name == b"content-type"]
    return b",".join(given).partition(b";")[0].strip().lower()


def _accepted(fields: Headers) -> Response:
    response = Response(ACCEPTED, 202)
    length = (b"content-length", b"%d" % len(ACCEPTED))
    response.raw_headers = [(b"content-type", JSON), length, NO_STORE, *fields, *CORS]
    return response


_REQUEST_BODY = {
    "required": True,
    "content": {JSON_TYPE: {"schema": KeyRequest.model_json_schema()}},
}

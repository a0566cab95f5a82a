"""`POST /api/v1/keys`: ask for a personal key by e-mail."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import BodyTimeout, BodyTooLong, InvalidRequest, RequestError
from barograph.keys.email_address import parse_address
from barograph.keys.registration import ANSWER, Registrations
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import CORS, JSON, NO_STORE, Headers
from barograph.kit.http import ApiRouter, error_response, is_cross_site, read_body
from barograph.kit.wire import JSON_TYPE, Schema, WireModel, operation, refusal
from barograph.limits.rate_limits import (
    KEYS_PATH,
    CallerRefused,
    RateLimiter,
    Usage,
    rate_limit_fields,
)

INVALID_BODY = (
    'the body must be a JSON object with exactly one member, such as {"email": "name@example.com"}'
)


class KeyRequest(BaseModel):
    """A request for a key."""

    model_config = ConfigDict(extra="forbid")

    email: Annotated[
        str, Field(max_length=254, description="The address that gets the one-time link.")
    ]


class KeyAnswer(WireModel):
    """The same response whether or not the address is known."""

    ok: Annotated[Literal[True], Field(description="Always true.")]
    message: str


def email_from_body(body: bytes) -> str:
    """Read the e-mail address from a request body.

    Not with the framework's parser, which accepts repeated members and guesses encodings.

    Raises:
        InvalidRequest: it isn't one JSON object in UTF-8 with the one member `email`, a string.
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
    """A JSON object with its repeated members; a JSON array is a plain list."""


KEYS_ALLOW = b"POST, OPTIONS"
MAX_BODY_BYTES = 4_096
RETRY_SECONDS = 5

ACCEPTED = KeyAnswer(ok=True, message=ANSWER).encode()
NO_MAIL = "this instance sends no mail; ask its operator for a key"
NOT_JSON = "send the body as JSON, with the header Content-Type: application/json"
OTHER_SITE = (
    "pages of other websites can't ask for keys: use the form on our own page, or send the request "
    "from a program"
)
AWAY = "key registration is unavailable right now; try again shortly"


def key_routes(
    registrations: Registrations | None, limiter: RateLimiter, clock: Clock
) -> ApiRouter:
    """The route of `/api/v1/keys`; without registrations it says that there is no mail."""
    router = ApiRouter(tags=["keys"])

    @router.post(
        KEYS_PATH,
        status_code=202,
        openapi_extra={"requestBody": _REQUEST_BODY},
        **operation("registerKey", KeyAnswer, responses=_ERRORS),
    )
    async def register_key(request: Request) -> Response:
        if registrations is None:
            return error_response(503, NO_MAIL)
        if is_cross_site(request.scope["headers"], registrations.base_url):
            return error_response(403, OTHER_SITE)
        # A page of another site could send JSON as text/plain without a preflight.
        if media_type(request) != JSON:
            return error_response(415, NOT_JSON)
        try:
            usage = await register(request, email_from_body, registrations, limiter)
        except CallerRefused as refusal:
            return error_response(refusal.status, refusal.message, *refusal.fields(clock()))
        except DatabaseUnavailable:
            return error_response(503, AWAY, (b"retry-after", b"%d" % RETRY_SECONDS))
        return _accepted(rate_limit_fields(usage, clock()))

    return router


async def register(
    request: Request,
    email_from: Callable[[bytes], str],
    registrations: Registrations,
    limiter: RateLimiter,
) -> Usage:
    """Mail a link to the address in a request body, and count the request.

    A request that is malformed or can't be stored is not counted.

    Raises:
        BodyTimeout, BodyTooLong: the body did not arrive in time, or is too long.
        InvalidRequest: it has no valid address.
        TooManyRequests: the caller's limit is used up.
        DatabaseUnavailable: nothing will be mailed.
    """
    address = parse_address(email_from(await read_body(request, MAX_BODY_BYTES)))
    return await registrations.request(address, limiter.caller(request.scope))


def media_type(request: Request) -> bytes:
    """The body's media type without parameters."""
    given = [value for name, value in request.scope["headers"] if name == b"content-type"]
    return b",".join(given).partition(b";")[0].strip().lower()


class NotJson(RequestError):
    """The body is not sent as JSON."""

    status = 415
    text = NOT_JSON


async def json_body(request: Request, longest: int) -> bytes:
    """The body of a request that must be JSON.

    Raises:
        NotJson: its Content-Type is another.
        BodyTooLong: it is longer than `longest`.
    """
    if media_type(request) != JSON:
        raise NotJson
    return await read_body(request, longest)


def _accepted(fields: Headers) -> Response:
    response = Response(ACCEPTED, 202)
    length = (b"content-length", b"%d" % len(ACCEPTED))
    response.raw_headers = [(b"content-type", JSON), length, NO_STORE, *fields, *CORS]
    return response


_REQUEST_BODY = {
    "required": True,
    "content": {JSON_TYPE: {"schema": KeyRequest.model_json_schema()}},
}
_ERRORS: dict[int, str | Schema] = {
    400: "Malformed body or address.",
    403: refusal("The request came from a page of another website.", example=OTHER_SITE),
    408: refusal("The body did not arrive in time.", example=BodyTimeout().message),
    413: refusal("The body is too long.", example=BodyTooLong(MAX_BODY_BYTES).message),
    415: refusal("The Content-Type is not application/json.", example=NOT_JSON),
    429: "Too many registrations from one caller.",
    503: "This instance sends no mail, or a temporary failure.",
}

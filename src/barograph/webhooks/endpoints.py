"""`/api/v1/webhooks`: the owner of a personal key registers endpoints for events."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import BodyTimeout, BodyTooLong, InvalidRequest, NotFound
from barograph.events.query import MAX_SYMBOLS, EventFilter, Resolve
from barograph.events.records import EVENT_TYPES, EventType
from barograph.keys.endpoints import NOT_JSON, json_body
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.kit.documents import Document
from barograph.kit.http import (
    ApiRouter,
    DocumentResponse,
    private_response,
)
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import (
    JSON_TYPE,
    Schema,
    WireModel,
    operation,
    parameter,
    read_model,
    refusal,
)
from barograph.limits.rate_limits import WEBHOOKS, RateLimiter
from barograph.webhooks.keys import Keys
from barograph.webhooks.records import MAX_WEBHOOKS, Format, State, words
from barograph.webhooks.signing import key_id, public_key_text
from barograph.webhooks.store import (
    add_webhook,
    delete_webhooks,
    deliveries_of,
    find_webhook,
    rotate_secret,
    webhooks_of,
)
from barograph.webhooks.targets import MAX_URL, check_target

WEBHOOKS_PATH = "/api/v1/webhooks"
WEBHOOK_KEY_PATH = "/api/v1/webhook-key"
EXAMPLE = {"url": "https://example.com/hook"}

Symbol = Annotated[str, Field(pattern="^[A-Za-z0-9]{1,30}$")]
Time = Annotated[str, BeforeValidator(lambda at: None if at is None else iso_timestamp(at))]
Words = BeforeValidator(words)


class WebhookRequest(BaseModel):
    """A new webhook."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: Annotated[str, Field(max_length=MAX_URL, description="Public https address.")]
    types: Annotated[
        list[EventType], Field(max_length=len(EVENT_TYPES), description="Default: all types.")
    ] = []
    symbols: Annotated[
        list[Symbol], Field(max_length=MAX_SYMBOLS, description="Default: all events.")
    ] = []
    format: Annotated[
        Format,
        Field(description="`json` gets events and alerts. A chat service gets alerts only."),
    ] = "json"


class RegisteredWebhook(WireModel):
    """What every description of a webhook has."""

    id: str
    url: str
    types: Annotated[list[EventType], Words, Field(description="Empty for all.")]
    symbols: Annotated[list[str], Words, Field(description="Empty for all.")]
    format: Format
    state: State
    created_at: Time


class CreatedWebhook(RegisteredWebhook):
    """A new webhook, with its secret."""

    secret: Annotated[str, Field(description="Verifies `v1` signatures. Shown once.")]


class WebhookSecretBody(WireModel):
    """The new secret of a webhook."""

    secret: str


class WebhookBody(RegisteredWebhook):
    """A webhook, without its secret."""

    last_delivery_at: Annotated[Time | None, Field(description="Last accepted event.")]
    failures: Annotated[int, Field(description="Failed attempts since the last success.")]
    failing_since: Time | None
    why: Annotated[str | None, Field(description="Why nothing is delivered any more.")]


class WebhookList(WireModel):
    """The webhooks of a mailbox, oldest first."""

    webhooks: list[WebhookBody]


class DeliveryBody(WireModel):
    """One attempt."""

    message: Annotated[str, Field(description="The `webhook-id`, the same for every attempt.")]
    event: Annotated[int | None, Field(description="Null for a challenge.")]
    at: Time
    attempt: int
    status: Annotated[int | None, Field(description="HTTP status; null without an answer.")]
    failure: Annotated[str | None, Field(description="Kind of failure; null for a success.")]
    duration_ms: int


class DeliveryList(WireModel):
    """The newest attempts of a webhook, newest first."""

    deliveries: list[DeliveryBody]


class WebhookKeyBody(WireModel):
    """The key that verifies `v1a` signatures."""

    algorithm: str
    key_id: str
    public_key: Annotated[str, Field(description="`whpk_` and 32 bytes in base64.")]
    previous_keys: Annotated[list[str], Field(description="Old keys that still sign, too.")]


def webhook_routes(
    database: Database,
    limiter: RateLimiter,
    clock: Clock,
    *,
    resolve: Resolve,
    base_url: str,
    allow_local: bool,
    keys: Keys,
) -> ApiRouter:
    """The routes of webhooks, and of the published keys; `resolve` finds symbols."""
    router = ApiRouter(tags=["webhooks"])
    published = _published(keys)

    @router.get(WEBHOOKS_PATH, **operation("getWebhooks", WebhookList, responses=ERRORS))
    async def webhooks(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        listed = {"webhooks": await webhooks_of(database, owner)}
        body = WebhookList.model_validate(listed, from_attributes=True)
        return private_response(200, body.encode())

    @router.post(
        WEBHOOKS_PATH,
        status_code=201,
        openapi_extra={"requestBody": _REQUEST_BODY, "callbacks": _CALLBACKS},
        **operation("createWebhook", CreatedWebhook, responses=_CREATE_ERRORS),
    )
    async def create(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        asked = read_model(WebhookRequest, await json_body(request, MAX_BODY_BYTES), EXAMPLE)
        check_target(asked.url, asked.format, base_url, allow_local=allow_local)
        wanted = _filter(asked, resolve)
        await limiter.count(WEBHOOKS, owner)
        new = await database.write(
            lambda tx: add_webhook(
                *(tx, owner, asked.url, wanted, clock()), webhook_format=asked.format
            )
        )
        body = CreatedWebhook.model_validate(new, from_attributes=True)
        return private_response(201, body.encode())

    @router.get(
        f"{WEBHOOKS_PATH}/{{id}}/deliveries",
        **operation("getWebhookDeliveries", DeliveryList, _ID, responses=_ERRORS_BY_ID),
    )
    async def deliveries(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        webhook = await find_webhook(database, request.path_params["id"], owner)
        logged = {"deliveries": await deliveries_of(database, webhook.id)}
        body = DeliveryList.model_validate(logged, from_attributes=True)
        return private_response(200, body.encode())

    @router.post(
        f"{WEBHOOKS_PATH}/{{id}}/secret",
        **operation("rotateWebhookSecret", WebhookSecretBody, _ID, responses=_ERRORS_BY_ID),
    )
    async def rotate(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        webhook = await find_webhook(database, request.path_params["id"], owner)
        await limiter.count(WEBHOOKS, owner)
        secret = await database.write(lambda tx: rotate_secret(tx, webhook, clock()))
        return private_response(200, WebhookSecretBody(secret=secret).encode())

    @router.delete(
        f"{WEBHOOKS_PATH}/{{id}}",
        status_code=204,
        **operation("deleteWebhook", None, _ID, responses=_ERRORS_BY_ID),
    )
    async def delete(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        webhook = await find_webhook(database, request.path_params["id"], owner)
        await database.write(lambda tx: delete_webhooks(tx, [webhook]))
        return private_response(204, b"")

    @router.get(
        WEBHOOK_KEY_PATH,
        tags=["events"],  # anyone may read it
        **operation("getWebhookKey", WebhookKeyBody),
    )
    async def key(_request: Request) -> Response:
        return DocumentResponse(published, clock())

    return router


def _published(keys: Keys) -> Document:
    current, *previous = map(public_key_text, keys)
    body = WebhookKeyBody(
        algorithm="ed25519", key_id=key_id(keys[0]), public_key=current, previous_keys=previous
    )
    return Document(body.encode())


def _filter(asked: WebhookRequest, resolve: Resolve) -> EventFilter:
    if asked.format != "json" and (asked.types or asked.symbols):
        raise InvalidRequest("a chat service gets no events; leave out types and symbols")
    try:
        return EventFilter(frozenset(asked.types), frozenset(map(resolve, asked.symbols)))
    except NotFound as error:
        raise InvalidRequest(error.message) from error


_ID = parameter("path", "id", "The id of a webhook.", example="wh_0123456789abcdef")
_REQUEST_BODY = {
    "required": True,
    "content": {
        JSON_TYPE: {
            "schema": WebhookRequest.model_json_schema(),
            "example": {"url": "https://example.com/hook", "types": ["regime.changed"]},
        }
    },
}
_MESSAGE_MEMBERS = {
    "type": {"type": "string"},
    "timestamp": {"type": "string", "description": "`at` of the event."},
    "data": {"$ref": "#/components/schemas/EventRecord"},
}
_MESSAGE: Schema = {
    "operationId": "receiveEvent",
    "summary": "An event, sent to your webhook",
    "security": [],
    "tags": ["webhooks"],
    "parameters": [
        parameter("header", f"webhook-{name}", "See Standard Webhooks 1.0.0.", is_required=True)
        for name in ("id", "timestamp", "signature")
    ],
    "requestBody": {
        "required": True,
        "content": {JSON_TYPE: {"schema": {"type": "object", "properties": _MESSAGE_MEMBERS}}},
    },
    "responses": {
        "2XX": {"description": "Delivered."},
        "4XX": {"description": "Not delivered. We try again, except after 410."},
    },
}
# Generators take the top-level `webhooks` of OpenAPI for calls to us.
_CALLBACKS = {"event": {"{$request.body#/url}": {"post": _MESSAGE}}}
ERRORS: dict[int, str | Schema] = {
    401: "No valid key.",
    429: "Limit reached.",
    503: "A temporary failure.",
}
"""Of every request with a key."""

BODY_ERRORS: dict[int, str | Schema] = {
    **ERRORS,
    408: refusal("The body did not arrive in time.", example=BodyTimeout().message),
    413: refusal("The body is too long.", example=BodyTooLong(MAX_BODY_BYTES).message),
    415: refusal("The Content-Type is not application/json.", example=NOT_JSON),
}
_ERRORS_BY_ID = {**ERRORS, 404: "You have no such webhook."}
_CREATE_ERRORS: dict[int, str | Schema] = {
    **BODY_ERRORS,
    400: "Malformed body, or an address that is not public.",
    409: f"You have {MAX_WEBHOOKS} webhooks already.",
}

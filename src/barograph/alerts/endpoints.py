"""`/api/v1/alerts`: the owner of a personal key writes rules and reads their messages."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.alerts.messages import headline
from barograph.alerts.preview import Preview, preview
from barograph.alerts.records import MAIL, MAX_ALERTS, Alert, Fired, State
from barograph.alerts.rules import (
    Every,
    Measure,
    Rule,
    When,
    Within,
    checked,
    parsed,
    sentence,
)
from barograph.alerts.store import (
    UNREADABLE,
    add_alert,
    alerts_of,
    delete_alerts,
    find_alert,
    messages_after,
    pause_without_target,
    sentence_of,
    set_state,
)
from barograph.board.board import Board
from barograph.errors import InvalidRequest
from barograph.events.query import MAX_ID, EventFilter
from barograph.keys.endpoints import json_body
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.http import ApiRouter, clamped_integer, private_response
from barograph.kit.lists import instant
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import JSON_TYPE, Schema, WireModel, operation, parameter, read_model
from barograph.limits.rate_limits import ALERTS, WEBHOOKS, RateLimiter
from barograph.markets.reader import CrossReader
from barograph.settings import Settings
from barograph.webhooks.endpoints import BODY_ERRORS, ERRORS
from barograph.webhooks.records import Format, words
from barograph.webhooks.store import add_webhook, delete_webhooks, find_webhook, webhooks_of
from barograph.webhooks.targets import check_target

ALERTS_PATH = "/api/v1/alerts"
CHATS: Sequence[Format] = [name for name in get_args(Format) if name != "json"]
PAGE_SIZE = 100
"""The most messages of one response."""

EXAMPLE = {"measure": "funding", "symbols": ["BTC"], "when": "above", "value": 0.05}
PAUSE = {"state": "paused"}


class AlertRequest(BaseModel):
    """A rule, and where its messages go."""

    model_config = ConfigDict(extra="forbid", strict=True)

    measure: Measure
    symbols: Annotated[list[str], Field(description="Coins; empty for all.")] = []
    venue: Annotated[str, Field(description="A venue, `any` of them, or `all` added up.")] = ""
    when: When = "happens"
    value: Annotated[float | None, Field(description="In the unit of the measure.")] = None
    within: Within | None = None
    label: Annotated[str, Field(description="The new label; empty for any.")] = ""
    key: Annotated[str, Field(description="Signal, category of briefs or event type.")] = ""
    every: Annotated[Every, Field(description="At most one message per coin in this time.")] = "1h"
    until: Annotated[str | None, Field(description="When it ends, as ISO 8601.")] = None
    targets: Annotated[list[str], Field(description="`mail`, ids of webhooks, or both.")] = [MAIL]


class AlertBody(AlertRequest, WireModel):
    """A stored alert."""

    id: str
    sentence: Annotated[str, Field(description="What it does, in words.")]
    state: State
    why: Annotated[str | None, Field(description="Why it is paused, has ended or sends no mail.")]
    created_at: str


class AlertChange(BaseModel):
    """A new state."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["active", "paused"]


class AlertList(WireModel):
    """The alerts of a mailbox, oldest first."""

    alerts: list[AlertBody]


class FiringBody(WireModel):
    """When a rule fired, or would have."""

    at: str
    symbol: str
    venue: str
    value: float | None
    text: Annotated[str, Field(description="What happened, in a sentence.")]


class AlertMessageBody(FiringBody):
    """A message."""

    id: int
    alert: str
    url: Annotated[str, Field(description="The page that it is about.")]


class AlertMessageList(WireModel):
    """Messages, oldest first."""

    messages: list[AlertMessageBody]


class PreviewBody(WireModel):
    """What a rule would have done."""

    sentence: str
    days: int
    note: Annotated[str, Field(description="How finely it was replayed.")]
    times: list[FiringBody]


class Alerts(NamedTuple):
    """What the API and the page do alike."""

    database: Database
    limiter: RateLimiter
    clock: Clock
    board: Board
    cross: CrossReader
    settings: Settings

    async def rule(self, members: Mapping[str, Any], *, is_form: bool = False) -> Rule:
        """Read and check the members of a rule; raises InvalidRequest if it can never fire."""
        until = members.get("until")
        known = {**members, "until": instant("until", until) if until else None}
        market = await self.cross.known_market(self.board)  # which finds the names of coins
        facts = {} if market is None else market.facts

        def lists(venue: str, symbol: str) -> bool:
            reading = facts[venue].reading if venue in facts else None
            return reading is None or any(each.asset == symbol for each in reading.contracts)

        rule, venues = parsed(known, is_form=is_form), self.settings.venue_names
        return checked(rule, self.cross.asset, venues, self.clock(), lists)

    async def preview(self, owner: str, rule: Rule) -> Preview:
        """What a rule would have done in the past 30 days."""
        await self.limiter.count(ALERTS, owner)
        return await preview(self.database, rule, self.clock(), venues=self.settings.venue_names)

    async def create(
        self, owner: str, rule: Rule, targets: Sequence[str], chat: tuple[str, Format] | None = None
    ) -> Alert:
        """Store a checked rule, and the chat service that it also alerts, if that is new.

        Raises:
            InvalidRequest: a target is not the owner's, or was switched off.
            TooManyAlerts: the owner has reached the limit.
            TooManyWebhooks: the owner has reached the limit.
        """
        settings, now = self.settings, self.clock()
        if chat is not None:
            check_target(*chat, settings.base_url, allow_local=settings.is_demo)
            known = await webhooks_of(self.database, owner)
            if not any(each.is_live and (each.url, each.format) == chat for each in known):
                await self.limiter.count(WEBHOOKS, owner)
        await self.limiter.count(ALERTS, owner)

        async def work(tx: Transaction) -> Alert:
            live = [each for each in await webhooks_of(tx, owner) if each.is_live]
            wanted = {*targets}
            if chat is not None:
                same = [each for each in live if (each.url, each.format) == chat]
                if not same:
                    given = (tx, owner, chat[0], EventFilter(), now)
                    same = [await add_webhook(*given, webhook_format=chat[1])]
                    live += same
                wanted.add(same[0].id)
            known = [MAIL] * settings.sends_mail + [webhook.id for webhook in live]
            if not wanted or not wanted <= {*known}:
                raise InvalidRequest(
                    f"targets must be any of {', '.join(known) or 'your webhooks'}"
                )
            ordered = [target for target in known if target in wanted]
            return await add_alert(tx, owner, rule, ordered, now)

        return await self.database.write(work)

    async def delete_target(self, owner: str, public_id: str) -> None:
        """Delete a webhook, and pause the alerts that have no other target; raises NotFound."""
        webhook, now = await find_webhook(self.database, public_id, owner), self.clock()

        async def work(tx: Transaction) -> None:
            await delete_webhooks(tx, [webhook])
            await pause_without_target(tx, now)

        await self.database.write(work)

    async def change(self, owner: str, public_id: str, state: State) -> Alert:
        """Pause or resume an alert; raises NotFound."""
        alert, now = await find_alert(self.database, public_id, owner), self.clock()
        await self.limiter.count(ALERTS, owner)  # the collector reads every alert again
        await self.database.write(lambda tx: set_state(tx, alert, state, None, now))
        return alert._replace(state=state, why=None)

    async def delete(self, owner: str, public_id: str) -> None:
        """Delete an alert with its messages; raises NotFound."""
        alert = await find_alert(self.database, public_id, owner)
        await self.database.write(lambda tx: delete_alerts(tx, [alert]))

    async def messages(self, owner: str, after: int) -> "AlertMessageList":
        """The messages after one, oldest first."""
        alerts = await alerts_of(self.database, owner)
        rules = {each.id: each.rule for each in alerts if sentence_of(each) != UNREADABLE}
        new = await messages_after(self.database, owner, after, PAGE_SIZE)
        return AlertMessageList(
            messages=[
                AlertMessageBody(
                    **_firing(rules[message.alert], message.fired),
                    id=message.id,
                    alert=message.alert,
                    url=self.settings.base_url + message.fired.path,
                )
                for message in new
                if message.alert in rules  # it may have been deleted since
            ]
        )


def after_in(request: Request) -> int:
    """The parameter `after`."""
    given = request.query_params.getlist("after")
    return clamped_integer(given, default=0, lowest=0, highest=MAX_ID)


def alert_body(alert: Alert) -> AlertBody:
    """How an alert is described; one that can't be read can still be deleted."""
    said = sentence_of(alert)
    if said == UNREADABLE:
        alert = alert._replace(rule_text='{"measure":"event"}', state="paused", why="unreadable")
    rule = alert.rule
    members = msgspec.to_builtins(rule) | {"symbols": list(rule.symbols)}
    return AlertBody(
        **members | {"until": None if rule.until is None else iso_timestamp(rule.until)},
        targets=words(alert.targets),
        id=alert.id,
        sentence=said,
        state=alert.state,
        why=alert.why,
        created_at=iso_timestamp(alert.created_at),
    )


def _firing(rule: Rule, fired: Fired) -> dict[str, Any]:
    told = {name: getattr(fired, name) for name in ("symbol", "venue", "value")}
    return {**told, "at": iso_timestamp(fired.at), "text": headline(rule, fired)}


def alert_routes(alerts: Alerts) -> ApiRouter:
    """The routes of alerts."""
    router = ApiRouter(prefix=ALERTS_PATH, tags=["alerts"])
    limiter = alerts.limiter

    async def asked(request: Request) -> tuple[str, AlertRequest, Rule]:
        owner = await limiter.owner(request.scope)
        body = read_model(AlertRequest, await json_body(request, MAX_BODY_BYTES), EXAMPLE)
        return owner, body, await alerts.rule(body.model_dump(exclude={"targets"}))

    @router.get("", **operation("getAlerts", AlertList, responses=ERRORS))
    async def listed(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        bodies = [*map(alert_body, await alerts_of(alerts.database, owner))]
        return private_response(200, AlertList(alerts=bodies).encode())

    @router.post(
        "",
        status_code=201,
        openapi_extra={"requestBody": _body_of(AlertRequest, EXAMPLE)},
        **operation("createAlert", AlertBody, responses={**_BODY_ERRORS, 409: _TOO_MANY}),
    )
    async def create(request: Request) -> Response:
        owner, body, rule = await asked(request)
        alert = await alerts.create(owner, rule, body.targets)
        return private_response(201, alert_body(alert).encode())

    @router.post(
        "/preview",
        openapi_extra={"requestBody": _body_of(AlertRequest, EXAMPLE)},
        **operation("previewAlert", PreviewBody, responses=_BODY_ERRORS),
    )
    async def previewed(request: Request) -> Response:
        owner, _, rule = await asked(request)
        preview = await alerts.preview(owner, rule)
        times = [FiringBody(**_firing(rule, fired)) for fired in preview.times]
        body = PreviewBody(
            sentence=sentence(rule), days=preview.days, note=preview.note, times=times
        )
        return private_response(200, body.encode())

    @router.get(
        "/messages",
        **operation("getAlertMessages", AlertMessageList, _AFTER, responses=ERRORS),
    )
    async def messages(request: Request) -> Response:
        owner = await limiter.owner(request.scope)
        return private_response(200, (await alerts.messages(owner, after_in(request))).encode())

    @router.patch(
        "/{id}",
        openapi_extra={"parameters": [_ID], "requestBody": _body_of(AlertChange, PAUSE)},
        **operation("changeAlert", AlertBody, responses={**_BODY_ERRORS, 404: _UNKNOWN}),
    )
    async def change(request: Request) -> Response:
        public_id, owner = _alert_id(request), await limiter.owner(request.scope)
        state = read_model(AlertChange, await json_body(request, MAX_BODY_BYTES), PAUSE).state
        alert = await alerts.change(owner, public_id, state)
        return private_response(200, alert_body(alert).encode())

    @router.delete(
        "/{id}",
        status_code=204,
        **operation("deleteAlert", None, _ID, responses={**ERRORS, 404: _UNKNOWN}),
    )
    async def delete(request: Request) -> Response:
        public_id, owner = _alert_id(request), await limiter.owner(request.scope)
        await alerts.delete(owner, public_id)
        return private_response(204, b"")

    return router


def _alert_id(request: Request) -> str:
    """The id in the path, unless the path is that of another endpoint."""
    public_id: str = request.path_params["id"]
    if public_id in {"preview", "messages"}:
        raise HTTPException(405)
    return public_id


def _body_of(model: type[BaseModel], example: Mapping[str, Any]) -> Schema:
    schema = model.model_json_schema()
    return {"required": True, "content": {JSON_TYPE: {"schema": schema, "example": example}}}


_ID = parameter("path", "id", "The id of an alert.", example="al_0123456789abcdef")
_AFTER = parameter(
    "query", "after", "Return messages after this id. Default: the oldest.", type="integer"
)
_UNKNOWN = "You have no such alert."
_BODY_ERRORS: dict[int, str | Schema] = {
    **BODY_ERRORS,
    400: "Malformed body, or a rule that can never fire. The error says what would work.",
}
_TOO_MANY = f"You have {MAX_ALERTS} alerts already."

"""`/alerts`: the owner of a personal key writes, tries, pauses and deletes alerts."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args
from urllib.parse import parse_qsl, urlsplit

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.alerts.endpoints import CHATS, Alerts, after_in, alert_body
from barograph.alerts.messages import headline
from barograph.alerts.picture import picture_of
from barograph.alerts.preview import Preview
from barograph.alerts.records import MAIL, State
from barograph.alerts.rules import (
    ALL,
    ANY,
    CHANGES,
    FACTS,
    IN_WORDS,
    LIQUIDATED,
    UNITS,
    Every,
    Measure,
    Rule,
    When,
    Within,
    amount,
    key_words,
    labels_of,
    sentence,
    subject,
)
from barograph.alerts.store import (
    UNREADABLE,
    alerts_of,
    find_alert,
    find_by_stop_token,
    find_message,
    forget_owner,
    messages_of,
    sentence_of,
    stop_by_token,
)
from barograph.errors import RequestError
from barograph.keys.api_keys import ApiKeys
from barograph.keys.email_address import MAX_LENGTH
from barograph.keys.registration import LINK_FOLDER
from barograph.kit.documents import JSON
from barograph.kit.http import is_cross_site, read_body
from barograph.kit.request_limits import MAX_BODY_BYTES
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.limits.rate_limits import KEY_FIELD, RENDERS, CallerRefused
from barograph.markets.samples import Series
from barograph.site.charts.axes import Band, ChartEvent, timeline
from barograph.site.charts.lines import line_chart
from barograph.site.paths import ALERTS_PAGE
from barograph.site.responses import PNG, PageRouter, private_page
from barograph.site.site import Site
from barograph.venues.registry import VENUES
from barograph.webhooks.records import Format
from barograph.webhooks.store import webhooks_of

COOKIE = "barograph-session"
SESSION_DAYS = 30
SHOWN_MESSAGES = 30
MOST_CHARTS = 3
_STATES: Mapping[str, State] = {"pause": "paused", "resume": "active"}
_WITH_LETTER = re.compile(
    # Commas between thousands only: "0,05" is no 5.
    r"\$?(-?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+) ?([kmb]?) ?%?",
    re.ASCII | re.IGNORECASE,
)
_LETTERS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}


class _Form(NamedTuple):
    """What was typed, or what a link fills in."""

    fields: Mapping[str, str]
    targets: Sequence[str]

    def members(self) -> dict[str, Any]:
        """The members of the rule, without those that its measure doesn't have."""
        given = {name: self.fields.get(name, "").strip() for name in Rule.__struct_fields__}
        members: dict[str, Any] = {name: text for name, text in given.items() if text}
        members["symbols"] = re.findall(r"[^\s,]+", given["symbols"])
        number = _WITH_LETTER.fullmatch(given["value"])
        if number is not None:
            members["value"] = float(number[1].replace(",", "")) * _LETTERS[number[2].lower()]
        if any(name == given["measure"] and not fact.venues for name, fact in FACTS.items()):
            members = {
                name: each
                for name, each in members.items()
                if name not in {"venue", "when", "value", "within"}
            }
        return members


def _form_of(pairs: Sequence[tuple[str, str]]) -> _Form:
    return _Form(dict(pairs), [text for name, text in pairs if name == "targets"])


class SignedOut(RequestError):
    """There is no session, or its key is not valid any more."""

    status = 401
    text = "you are signed out; sign in with your key"


class OtherSite(RequestError):
    """A page of another website sent the form."""

    status = 403
    text = "the request came from a page of another website, so we did nothing"


class AlertPages:
    """The endpoints below `/alerts`."""

    def __init__(self, site: Site, alerts: Alerts, keys: ApiKeys, *, can_register: bool) -> None:
        self._site = site
        self._alerts = alerts
        self._keys = keys
        self._can_register = can_register
        base = urlsplit(site.templates.base_url)
        secure = "; Secure" * (base.scheme == "https")
        # Lax, so that a link in a mail finds its reader signed in; pages change nothing.
        self._cookie = f"Path={base.path}{ALERTS_PAGE}; HttpOnly; SameSite=Lax{secure}"

    def add_routes(self, router: PageRouter) -> None:
        """One route per path, so that a 405 can list all of its methods."""
        router.add(ALERTS_PAGE, self.page, "GET", "HEAD", "POST")
        router.add(f"{ALERTS_PAGE}/messages.json", self.messages, "GET", "HEAD")
        router.add(f"{ALERTS_PAGE}/stop/{{token}}", self.stop, "GET", "HEAD", "POST")
        router.add(f"{ALERTS_PAGE}/picture/{{token}}.png", self.picture, "GET", "HEAD")

    async def page(self, request: Request) -> Response:
        """GET shows the alerts and the form, and POST does what one of its buttons says."""
        owner = await self._owner(request)
        if request.method != "POST":
            return await self._page(owner, _form_of(request.query_params.multi_items()))
        form = _form_of(parse_qsl((await read_body(request, MAX_BODY_BYTES)).decode("latin-1")))
        try:
            if is_cross_site(request.scope["headers"], self._site.templates.base_url):
                raise OtherSite
            if form.fields.get("action") == "sign-in":
                return await self._sign_in(request, form.fields.get("key", "").strip())
            if owner is None:
                raise SignedOut
            return await self._act(owner, form)
        except RequestError as error:
            return await self._page(owner, form, error)

    async def _owner(self, request: Request) -> str | None:
        limiter = self._alerts.limiter
        await limiter.count(RENDERS, limiter.caller(request.scope))
        return await self._keys.session_owner(request.cookies.get(COOKIE, ""))

    async def _sign_in(self, request: Request, key: str) -> Response:
        headers = [*request.scope["headers"], (KEY_FIELD, key.encode())]
        await self._alerts.limiter.owner({**request.scope, "headers": headers})
        until = self._site.board.clock() + SESSION_DAYS * DAY
        return self._back(
            f"{self._keys.session(key, until)}; Max-Age={SESSION_DAYS * DAY // SECOND}"
        )

    def _back(self, cookie: str = "") -> Response:
        """Show the page again, so that reloading it repeats nothing."""
        path = (b"location", f"{self._site.templates.root}{ALERTS_PAGE}".encode())
        kept = (b"set-cookie", f"{COOKIE}={cookie}; {self._cookie}".encode())
        return private_page(303, b"", path, *([kept] if cookie else []))

    async def _act(self, owner: str, form: _Form) -> Response:
        alerts, public_id = self._alerts, form.fields.get("id", "")
        action = form.fields.get("action", "")
        if action == "sign-out":
            return self._back("; Max-Age=0")
        if action == "forget":
            return await self._page(owner, form)
        if action == "forget-all":
            await self._site.database.write(lambda tx: forget_owner(tx, owner))
            return self._back("; Max-Age=0")
        if action == "delete":
            await alerts.delete(owner, public_id)
        elif action == "delete-target":
            await alerts.delete_target(owner, public_id)
        elif action in _STATES:
            await alerts.change(owner, public_id, _STATES[action])
        else:
            rule = await alerts.rule(form.members(), is_form=True)
            if action != "create":
                return await self._page(owner, form, rule=rule)
            url, kind = (form.fields.get(name, "").strip() for name in ("url", "format"))
            service: Format = next((name for name in CHATS if name == kind), "telegram")
            await alerts.create(owner, rule, form.targets, (url, service) if url else None)
        return self._back()

    async def _page(
        self,
        owner: str | None,
        form: _Form,
        error: RequestError | None = None,
        rule: Rule | None = None,
    ) -> Response:
        values: dict[str, Any] = {}
        if owner is not None:
            values = await self._own(owner)
            if rule is not None:
                values |= await self._previewed(owner, rule)
        fields = error.fields(self._site.board.clock()) if isinstance(error, CallerRefused) else []
        body = self._site.templates.render(
            "alerts.html",
            here=ALERTS_PAGE,
            owner=owner,
            error=None if error is None else error.message[0].upper() + error.message[1:],
            typed=defaultdict(str, form.fields),
            chosen=form.targets or [MAIL],
            can_register=self._can_register,
            link_folder=LINK_FOLDER,
            max_email=MAX_LENGTH,
            **values,
        )
        return private_page(200 if error is None else error.status, body, *fields)

    async def _own(self, owner: str) -> dict[str, Any]:
        """What belongs to an owner, and what the form offers."""
        database = self._site.database
        alerts = await alerts_of(database, owner)
        rules = {each.id: each.rule for each in alerts if sentence_of(each) != UNREADABLE}
        newest = await messages_of(database, owner, SHOWN_MESSAGES)
        webhooks = await webhooks_of(database, owner)
        return _OFFERED | {
            "alerts": [*map(alert_body, alerts)],
            "messages": [
                (each, headline(rules[each.alert], each.fired))
                for each in newest
                if each.alert in rules  # it may have been deleted since
            ],
            "webhooks": webhooks,
            "named": {
                MAIL: owner,
                **{each.id: f"{each.format} at {each.host}" for each in webhooks},
            },
            "venues": {
                ANY: "any exchange",
                ALL: "all exchanges together",
                **{name: VENUES[name].title for name in self._alerts.settings.venue_names},
            },
        }

    async def _previewed(self, owner: str, rule: Rule) -> dict[str, Any]:
        preview = await self._alerts.preview(owner, rule)
        fired = [(each, headline(rule, each)) for each in reversed(preview.times)]
        charts = [*_charts(rule, preview, self._site.board.clock())]
        return {"preview": preview, "sentence": sentence(rule), "fired": fired, "charts": charts}

    async def messages(self, request: Request) -> Response:
        """The messages after one, for the script of the page."""
        owner = await self._owner(request)
        if owner is None:
            raise SignedOut
        answer = await self._alerts.messages(owner, after_in(request))
        return private_page(200, answer.encode(), content_type=JSON)

    async def stop(self, request: Request, token: str) -> Response:
        """GET shows a button, and POST stops the alert, also one by a mail program (RFC 8058).

        GET must not stop it, because mail scanners open every link.
        """
        await self._alerts.limiter.count(RENDERS, self._alerts.limiter.caller(request.scope))
        database, now = self._site.database, self._site.board.clock()
        alert, is_stopped = await find_by_stop_token(database, token), request.method == "POST"
        if alert is not None and is_stopped:
            await database.write(lambda tx: stop_by_token(tx, token, now))
        body = self._site.templates.render(
            "alert_stop.html",
            sentence="" if alert is None else sentence_of(alert),
            is_active=alert is not None and alert.state == "active" and not is_stopped,
            path=request.scope["path"],
            alerts_page=ALERTS_PAGE,
        )
        return private_page(404 if alert is None else 200, body)

    async def picture(self, request: Request, token: str) -> Response:
        """The chart of a message, for mail programs and chat services."""
        await self._alerts.limiter.count(RENDERS, self._alerts.limiter.caller(request.scope))
        database = self._site.database
        message = await find_message(database, token)
        if message is not None:
            alert = await find_alert(database, message.alert, message.mailbox)
            if (body := await picture_of(database, alert, message)) is not None:
                return private_page(200, body, content_type=PNG)
        raise HTTPException(404)


def _charts(rule: Rule, preview: Preview, now: int) -> Iterator[tuple[str, Markup]]:
    """The measure over the time of a preview, with its limit and what would have fired."""
    show = partial(amount, unit=rule.unit)
    lines = preview.lines if rule.value is not None else ()
    for number, (symbol, venue, points) in enumerate(lines[:MOST_CHARTS]):
        fired = [
            ChartEvent(each.at, show(each.value or 0.0))
            for each in preview.times
            if (each.symbol, each.venue) == (symbol, venue)
        ]
        name = subject(rule, [symbol] if symbol else [], venue)
        series = Series(name, "price", preview.days, HOUR, now, tuple(points))
        time = timeline(preview.days, now, fired)
        yield (
            name,
            line_chart(
                *(series,),
                prefix=f"preview-{number}",
                name=name,
                unit=UNITS[rule.unit],
                show=show,
                bands=[Band("limit", None, rule.limit)],
                tinted=False,
                time=time,
            ),
        )


def _fields(measure: Measure) -> Iterator[str]:
    """The fields of the form that a measure has."""
    fact = FACTS[measure]
    yield from ("venue", "when", "value", "within") if fact.venues else ()
    yield from ("key",) if fact.keys else ()
    yield from ("label",) if measure in {"regime", "signal"} else ("symbols",)


_SIGNAL_LABELS = {key: labels_of("signal", key) for key in FACTS["signal"].keys}
_WHENS = {
    "above": "is above",
    "below": "is below",
    "crosses": "crosses, up or down",
    "rises": "rises by",
    "falls": "falls by",
    "changes": "changes by, up or down",
}
_OFFERED = {
    "facts": {
        name: {"fields": [*_fields(name)], "whens": fact.whens, "unit": UNITS.get(fact.unit, "")}
        for name, fact in FACTS.items()
    },
    "measures": {name: fact.title.removeprefix("the ") for name, fact in FACTS.items()},
    "whens": [(when, _WHENS[when]) for when in get_args(When) if when != "happens"],
    "changes": [*CHANGES, *LIQUIDATED],
    "withins": [(period, IN_WORDS[period]) for period in get_args(Within)],
    "everies": [(period, IN_WORDS[period]) for period in get_args(Every)],
    "keys": {
        name: [(key, key_words(name, key)) for key in fact.keys]
        for name, fact in FACTS.items()
        if fact.keys
    },
    "labels": {
        key: [(label, label) for label in labels]
        for key, labels in {"regime": FACTS["regime"].labels, **_SIGNAL_LABELS}.items()
    },
    "formats": [(name, name.capitalize()) for name in CHATS],
}

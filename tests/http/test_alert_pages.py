"""`/alerts`: the page of a person with a key and no shell, without JavaScript."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest

from barograph.alerts.records import Fired, NewMessage, StateRow
from barograph.alerts.store import UNREADABLE, alerts_of, messages_of, record_alerts
from barograph.limits.rate_limits import WEBHOOKS
from barograph.site.alerts import COOKIE
from barograph.webhooks.store import webhooks_of
from support.clock import START
from support.markets import reading, shares
from support.pages import FORM, Checked, SiteService

RULE = {
    "measure": "funding",
    "symbols": "btc",
    "venue": "any",
    "when": "above",
    "value": "0.05",
    "within": "",
    "key": "",
    "label": "",
    "every": "1h",
    "until": "",
    "targets": "mail",
}
SENTENCE = (
    "Tells you when BTC funding at any exchange is above 0.0500 % per 8 h. It can tell you again "
    "once the value has fallen below 0.0490 % per 8 h. At most one message every hour."
)


class Visitor:
    """A browser that has signed in."""

    def __init__(self, site: SiteService, email: str = "name@example.com") -> None:
        self.site = site
        self.key = site.service.create_key(email).key
        self.mailbox = email
        signed_in = self.press("sign-in", key=self.key)
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/alerts")
        self.cookie = signed_in.headers["set-cookie"]

    def ask(self, path: str = "/alerts") -> httpx2.Response:
        return self.site.ask(path, cookie=self.cookie.partition(";")[0])

    def press(self, action: str, **fields: str) -> httpx2.Response:
        body = urlencode({**fields, "action": action})
        cookie = getattr(self, "cookie", "").partition(";")[0]
        return self.site.ask("/alerts", "POST", body, cookie=cookie, **FORM)

    @property
    def text(self) -> str:
        return Checked(self.ask()).text.replace("\xa0", " ")

    def fire(self) -> str:
        """Store a message of the only alert; returns the token of its picture."""
        database = self.site.service.database

        async def work() -> str:
            [alert] = await alerts_of(database, self.mailbox)
            new = NewMessage(alert.id, self.mailbox, Fired("BTC", "bybit", 0.06, self.site.clock()))
            state = StateRow(alert.id, "BTC", "bybit", 1, START)
            await database.write(lambda tx: record_alerts(tx, [state], [new], START))
            return (await messages_of(database, self.mailbox, 1))[0].token

        return asyncio.run(work())


@pytest.fixture
def visitor(site: SiteService) -> Visitor:
    site.service.publish(reading(), shares())
    return Visitor(site)


def test_a_stranger_signs_in_with_a_key_or_asks_for_one(visitor: Visitor) -> None:
    site = visitor.site
    page = site.look("/alerts")
    assert "No key yet?" in page.text
    assert "/keys" in page.targets
    for wrong in ("", "bg_0_0", visitor.key[:-1]):
        refused = site.ask(
            "/alerts", "POST", urlencode({"action": "sign-in", "key": wrong}), **FORM
        )
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers
        assert "needs a valid personal key" in Checked(refused).text
    assert visitor.cookie.endswith("Path=/alerts; HttpOnly; SameSite=Lax; Secure")
    assert visitor.key.split("_")[2] not in visitor.cookie
    assert "name@example.com" in visitor.text
    assert visitor.ask().headers["cache-control"] == "no-store"


@pytest.mark.outcome(
    "A personal key is revoked while a browser is signed in to `/alerts`",
    "The session ends with it, and its alerts pause until the mailbox has a new key.",
)
def test_a_session_ends_with_its_key_its_time_or_the_button(visitor: Visitor) -> None:
    signed_out = visitor.press("sign-out")
    assert signed_out.headers["set-cookie"].startswith(f"{COOKIE}=; Max-Age=0")
    forged = visitor.cookie.replace(".", ".9", 1)
    assert "No key yet?" in Checked(visitor.site.ask("/alerts", cookie=forged)).text
    assert "Sign out" in visitor.text
    visitor.site.clock.pass_seconds(30 * 86_400)
    assert "No key yet?" in visitor.text
    assert visitor.press("create", **RULE).status_code == 401
    other = Visitor(visitor.site, "other@example.com")
    asyncio.run(visitor.site.keys.revoke(other.key.split("_")[1]))
    assert "No key yet?" in other.text
    assert other.ask("/alerts/messages.json").status_code == 401


def test_the_form_previews_creates_pauses_and_deletes_without_a_script(visitor: Visitor) -> None:
    previewed = visitor.press("preview", **RULE)
    text = Checked(previewed).text.replace("\xa0", " ")
    assert previewed.status_code == 200
    assert SENTENCE in text
    assert re.search(r"It would have told you \d+ times? in the past 30 days", text)
    assert 'value="0.05"' in previewed.text  # what was typed stays
    assert "None yet." in text

    assert visitor.press("create", **RULE).status_code == 303
    assert SENTENCE in visitor.text
    [alert] = asyncio.run(alerts_of(visitor.site.service.database, visitor.mailbox))
    visitor.press("pause", id=alert.id)
    assert "Paused. To name@example.com." in visitor.text
    visitor.press("resume", id=alert.id)
    assert "Active. To" in visitor.text
    visitor.fire()
    shown = "BTC funding at Bybit is above 0.0500 % per 8 h: 0.0600 % per 8 h"
    assert shown in visitor.text
    [message] = visitor.ask("/alerts/messages.json?after=0").json()["messages"]
    assert message["text"] == shown
    visitor.press("delete", id=alert.id)
    assert "None yet." in visitor.text
    assert shown not in visitor.text


@pytest.mark.outcome(
    "Creating an alert with a new chat service fails, or is repeated with the same service",
    "The service is added once, with the alert, or not at all.",
)
def test_a_chat_service_is_added_once_with_its_alert_and_deleted_on_the_page(
    visitor: Visitor,
) -> None:
    chat = {**RULE, "targets": "", "url": "https://ntfy.sh/topic", "format": "ntfy"}
    assert visitor.press("create", **{**chat, "targets": "wh_other"}).status_code == 400
    assert "Your targets" not in visitor.text
    for _ in range(2):
        assert visitor.press("create", **{k: v for k, v in chat.items() if v}).status_code == 303
    assert visitor.text.count("ntfy at ntfy.sh, active") == 1
    [target] = asyncio.run(webhooks_of(visitor.site.service.database, visitor.mailbox))
    visitor.press("delete-target", id=target.id)
    assert "Your targets" not in visitor.text
    assert visitor.text.count("Paused: all its targets were deleted or switched off") == 2
    refused = visitor.press("create", **{**RULE, "targets": target.id})
    assert "Targets must be any of mail" in Checked(refused).text


def test_new_chat_services_are_limited_per_hour_and_known_ones_are_not(visitor: Visitor) -> None:
    chat = {**RULE, "url": "https://ntfy.sh/topic", "format": "ntfy"}
    chat = {name: value for name, value in chat.items() if value}
    for _ in range(WEBHOOKS.requests):
        assert visitor.press("create", **chat).status_code == 303
        [target] = asyncio.run(webhooks_of(visitor.site.service.database, visitor.mailbox))
        assert visitor.press("create", **chat).status_code == 303
        visitor.press("delete-target", id=target.id)
        for alert in asyncio.run(alerts_of(visitor.site.service.database, visitor.mailbox)):
            visitor.press("delete", id=alert.id)
    assert visitor.press("create", **chat).status_code == 429
    assert visitor.press("create", **RULE).status_code == 303


def test_an_alert_that_can_not_be_read_is_shown_and_deleted(visitor: Visitor) -> None:
    visitor.press("create", **RULE)
    token = visitor.fire()
    visitor.site.service.execute("UPDATE alerts SET rule = '{}'")
    [alert] = asyncio.run(alerts_of(visitor.site.service.database, visitor.mailbox))
    assert f"{UNREADABLE}Paused: unreadable. To name@example.com." in visitor.text
    assert UNREADABLE in Checked(visitor.ask(f"/alerts/stop/{alert.stop_token}")).text
    assert visitor.ask(f"/alerts/picture/{token}.png").status_code == 404
    assert visitor.press("delete", id=alert.id).status_code == 303
    assert "None yet." in visitor.text


def test_an_owner_deletes_everything_about_them_after_a_question(visitor: Visitor) -> None:
    chat = {**RULE, "url": "https://ntfy.sh/topic", "format": "ntfy"}
    visitor.press("create", **{name: value for name, value in chat.items() if value})
    visitor.fire()
    asked = visitor.press("forget")
    assert "You can't undo this." in Checked(asked).text
    assert "Active." in visitor.text
    gone = visitor.press("forget-all")
    assert gone.headers["set-cookie"].startswith(f"{COOKIE}=; Max-Age=0")
    assert "No key yet?" in visitor.text
    for table in ("alerts", "alert_messages", "alert_states", "webhooks", "api_keys", "outbox"):
        rows = asyncio.run(visitor.site.service.database.fetch(f"SELECT * FROM {table}"))
        assert rows == [], table


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"measure": "regime", "label": "neutral"}, "when the market regime becomes neutral"),
        ({"measure": "brief", "symbols": "ETH, btc"}, "when a brief about ETH or BTC is published"),
        (
            {"measure": "liquidations", "symbols": "", "value": "$20 M", "within": "1h"},
            "when liquidations at any exchange exceed $20.00M within 1 hour",
        ),
        (
            {"measure": "open-interest", "when": "falls", "value": "5 %", "within": "1h"},
            "when BTC open interest at any exchange falls by 5 % within 1 hour",
        ),
    ],
)
def test_the_form_sends_what_a_person_types(
    visitor: Visitor, changed: dict[str, str], words: str
) -> None:
    rule = {**RULE, **changed}
    if rule["measure"] == "regime":
        rule["symbols"] = ""
    assert words in Checked(visitor.press("preview", **rule)).text.replace("\xa0", " ")


def test_a_rule_that_cannot_work_is_explained_above_the_form(visitor: Visitor) -> None:
    for changed, why in (
        ({"value": "lots"}, "The rule can't be read"),
        ({"value": "0,05"}, "The rule can't be read"),
        ({"value": "50"}, "or the rule can't fire."),
        ({"symbols": "NOSUCH"}, "Unknown coin"),
        ({"symbols": "<script>"}, "Coin must be"),
    ):
        answer = visitor.press("create", **{**RULE, **changed})
        assert answer.status_code == 400
        assert why in Checked(answer).text
    assert "None yet." in visitor.text


def test_another_site_can_not_press_a_button(visitor: Visitor) -> None:
    cookie, body = visitor.cookie.partition(";")[0], urlencode({**RULE, "action": "create"})
    foreign = {"origin": "https://elsewhere.example", "cookie": cookie}
    answer = visitor.site.ask("/alerts", "POST", body, **FORM, **foreign)
    assert answer.status_code == 403
    assert "another website" in Checked(answer).text
    assert "None yet." in visitor.text


@pytest.mark.outcome(
    "A mail scanner opens the link that stops an alert",
    "Nothing happens. Only the button, or a mail program's one-click request, stops it.",
)
def test_the_link_in_a_message_stops_its_alert_with_one_request(visitor: Visitor) -> None:
    visitor.press("create", **RULE)
    [alert] = asyncio.run(alerts_of(visitor.site.service.database, visitor.mailbox))
    path = f"/alerts/stop/{alert.stop_token}"

    looked = visitor.site.look(path)  # which stops nothing: mail scanners open every link
    assert path in looked.targets
    assert SENTENCE in looked.text.replace("\xa0", " ")
    assert "Active." in visitor.text
    one_click = "List-Unsubscribe=One-Click"  # from the mail service: no cookie, another origin
    foreign = {"origin": "https://mail.example"}
    stopped = visitor.site.ask(path, "POST", one_click, **FORM, **foreign)
    assert stopped.status_code == 200
    assert "This alert is stopped" in Checked(stopped).text
    assert "Paused: stopped by the link in a message." in visitor.text
    assert visitor.site.ask(path, "POST", one_click, **FORM).status_code == 200
    for method in ("GET", "POST"):
        assert visitor.site.ask("/alerts/stop/nope", method).status_code == 404


def test_the_picture_of_a_message_is_a_png(visitor: Visitor) -> None:
    visitor.press("create", **RULE)
    for _ in range(13):
        visitor.site.clock.pass_seconds(300)
        visitor.site.service.publish(reading(visitor.site.clock()), shares())
    found = visitor.site.ask(f"/alerts/picture/{visitor.fire()}.png")
    assert found.headers["content-type"] == "image/png"
    assert found.content.startswith(b"\x89PNG")
    assert visitor.site.ask("/alerts/picture/nope.png").status_code == 404


def test_a_page_link_fills_in_the_form(visitor: Visitor) -> None:
    text = visitor.ask("/alerts?symbol=SOL&measure=open-interest").text
    assert 'value="SOL"' in text
    assert '<option value="open-interest" selected>' in text


@pytest.fixture
def mailless(tmp_path: Path) -> Iterator[SiteService]:
    found = SiteService(tmp_path, mails=False)
    yield found
    found.close()


def test_without_mail_the_operator_gives_the_key(mailless: SiteService) -> None:
    assert "Ask its operator for a key." in mailless.look("/alerts").text

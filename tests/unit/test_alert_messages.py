"""Messages of alerts: what they say, and the documented shape of each format."""

import json
from typing import Any

import msgspec
import pytest

from barograph.alerts.messages import LATE, request_of, text_of
from barograph.alerts.records import Alert, AlertMessage, Fired
from barograph.alerts.rules import Rule
from barograph.kit.timestamps import MINUTE
from barograph.webhooks.records import Format, Webhook
from support.clock import START

BASE = "https://b.example"
FUNDING = Rule("funding", ("BTC",), "any", "above", 0.05)
FIRED = Fired("BTC", "bybit", 0.0612, START, path="/markets/BTC")
HOSTILE = "<b>*@everyone*</b> _x_ [y](https://evil.example) & more"
STOP, PICTURE = f"{BASE}/alerts/stop/st0p", f"{BASE}/alerts/picture/t0ken.png"


def alert(rule: Rule = FUNDING) -> Alert:
    text = msgspec.json.encode(rule).decode()
    return Alert("al_1", "a@b.example", text, "mail,wh_1", "active", None, 1, 1, "st0p")


def message(fired: Fired = FIRED) -> AlertMessage:
    body = msgspec.json.encode(fired).decode()
    return AlertMessage(7, "al_1", "a@b.example", fired.at, fired.at, body, "t0ken")


def sent(name: Format, url: str = "https://chat.example/hook", fired: Fired = FIRED) -> Any:
    webhook = Webhook(*("wh_1", "m", url, "", "", "s", "active", 1, 0), format=name)
    rule = FUNDING if fired.value is not None else Rule("brief")
    request = request_of(webhook, alert(rule), message(fired), base_url=BASE, now=START + 1)
    assert request.number == 7
    return request.url, json.loads(request.body)


HEADLINE = Fired("", "", None, START, text=HOSTILE, path="/briefs/a")


def test_message_says_what_happened_when_why_and_how_to_stop_it() -> None:
    text = text_of(alert(), message(), BASE, START)
    assert text.subject == "BTC funding at Bybit is above 0.0500 % per 8 h: 0.0612 % per 8 h"
    assert text.details == "Time: 6 November 2026, 21:20 UTC"
    assert text.link == f"{BASE}/markets/BTC"
    for part in (text.subject, text.details, text.link, STOP, "Tells you when BTC funding"):
        assert part in text.plain


def test_late_message_states_its_delay() -> None:
    assert "delayed" not in text_of(alert(), message(), BASE, START + LATE).plain
    late = text_of(alert(), message(), BASE, START + 7 * MINUTE)
    assert "delayed by 7 minutes" in late.plain


def test_telegram_gets_html_for_its_chat_and_the_picture_as_preview() -> None:
    address = "https://api.telegram.org/bot1:a/sendMessage?chat_id=-100123"
    url, body = sent("telegram", address)
    assert (url, body["chat_id"], body["parse_mode"]) == (address, "-100123", "HTML")
    assert body["link_preview_options"]["url"] == PICTURE
    _, hostile = sent("telegram", address, HEADLINE)
    assert hostile["text"].startswith("<b>&lt;b&gt;*@everyone*&lt;/b&gt; _x_")
    assert hostile["link_preview_options"] == {"is_disabled": True}


def test_discord_mentions_nobody_and_escapes_markdown() -> None:
    _, body = sent("discord")
    assert body["embeds"] == [{"image": {"url": PICTURE}}]
    _, hostile = sent("discord", fired=HEADLINE)
    assert hostile["allowed_mentions"] == {"parse": []}
    assert r"\<b\>\*\@everyone\*\</b\> \_x\_ \[y\](https" in hostile["content"]


def test_slack_gets_its_own_escapes() -> None:
    _, body = sent("slack")
    assert body["attachments"] == [{"fallback": "chart", "image_url": PICTURE}]
    assert f"<{STOP}|Stop this alert>" in body["text"]
    _, hostile = sent("slack", fired=HEADLINE)
    assert hostile["text"].startswith("*&lt;b&gt;*@everyone*&lt;/b&gt;")


@pytest.mark.parametrize("folder", ["https://ntfy.sh/", "https://n.example/push/"])
def test_ntfy_is_published_as_json_to_the_root_of_its_server(folder: str) -> None:
    url, body = sent("ntfy", f"{folder}my-topic")
    assert (url, body["topic"]) == (folder, "my-topic")
    assert body["title"] == "BTC funding at Bybit is above 0.0500 % per 8 h: 0.0612 % per 8 h"
    assert (body["click"], body["attach"]) == (f"{BASE}/markets/BTC", PICTURE)
    assert body["actions"] == [{"action": "view", "label": "Stop this alert", "url": STOP}]


def test_matrix_gets_text_and_html() -> None:
    _, body = sent("matrix", fired=HEADLINE)
    assert "<b>&lt;b&gt;*@everyone*&lt;/b&gt;" in body["html"]
    assert "<br>" in body["html"]


def test_json_has_the_facts_and_the_same_body_for_every_attempt() -> None:
    webhook = Webhook(*("wh_1", "m", "https://a.example/", "", "", "s", "active", 1, 0))
    early, late = (
        request_of(webhook, alert(), message(), base_url=BASE, now=START + minutes * MINUTE)
        for minutes in (0, 60)
    )
    assert early == late
    body = json.loads(early.body)
    assert (body["type"], body["timestamp"]) == ("alert.fired", "2026-11-06T21:20:00.000Z")
    assert body["data"] == {
        "alert": "al_1",
        "title": "BTC funding at Bybit is above 0.0500 % per 8 h: 0.0612 % per 8 h",
        "rule": {
            "measure": "funding",
            "symbols": ["BTC"],
            "venue": "any",
            "when": "above",
            "value": 0.05,
        },
        "symbol": "BTC",
        "venue": "bybit",
        "value": 0.0612,
        "url": f"{BASE}/markets/BTC",
        "stop_url": STOP,
        "picture_url": PICTURE,
    }

"""`/api/v1/alerts`: owners of a key write rules, preview and pause them, and read messages."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.alerts.endpoints import ALERTS_PATH, AlertBody
from barograph.alerts.records import MAX_ALERTS, Fired, NewMessage
from barograph.alerts.store import UNREADABLE, record_alerts
from barograph.limits.rate_limits import ALERTS, KeyRequired
from support.clock import START
from support.pages import MAIL
from support.service import Answer, Service, fresh_service

RULE = {"measure": "funding", "symbols": ["bitcoin"], "when": "above", "value": 0.05}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with fresh_service(tmp_path, **MAIL) as found:
        yield found


def key_of(service: Service, email: str = "name@example.com") -> str:
    return service.create_key(email).key


def send(
    service: Service,
    key: str,
    body: Any = None,
    path: str = "",
    method: str = "POST",
    **fields: str,
) -> Answer:
    text = body if isinstance(body, str) else json.dumps(RULE if body is None else body)
    given = {"content_type": "application/json", "x_api_key": key, **fields}
    return service.ask(ALERTS_PATH + path, method, body=text, **given)


def test_an_alert_is_described_by_the_members_that_made_it_and_a_sentence(service: Service) -> None:
    key = key_of(service)
    made = send(service, key, {**RULE, "until": "2026-12-01", "every": "4h"})
    listed = service.ask(ALERTS_PATH, x_api_key=key)

    alert = made.json()
    assert made.status == 201
    assert alert["sentence"] == (
        "Tells you when the mean BTC funding of all exchanges is above 0.0500 % per 8 h. It can "
        "tell you again once the value has fallen below 0.0490 % per 8 h. At most one message "
        "every 4 hours. It ends on 1 December, 00:00 UTC."
    )
    assert {name: alert[name] for name in ("symbols", "venue", "until", "targets", "state")} == {
        "symbols": ["BTC"],
        "venue": "all",
        "until": "2026-12-01T00:00:00.000Z",
        "targets": ["mail"],
        "state": "active",
    }
    assert listed.json() == {"alerts": [alert]}
    again = {name: alert[name] for name in (*RULE, "venue", "until", "targets", "every")}
    assert send(service, key, again).json()["sentence"] == alert["sentence"]
    for answer in (made, listed):
        assert "no-store" in answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers


def test_an_alert_is_paused_resumed_and_deleted_by_its_owner_alone(service: Service) -> None:
    key, other = key_of(service), key_of(service, "other@example.com")
    alert = send(service, key).json()
    path = f"/{alert['id']}"
    for state in ("paused", "active"):
        assert send(service, other, {"state": state}, path, "PATCH").status == 404
        changed = send(service, key, {"state": state}, path, "PATCH")
        assert (changed.status, changed.json()) == (200, {**alert, "state": state})
    assert send(service, key, {"state": "ended"}, path, "PATCH").status == 400
    assert service.ask(ALERTS_PATH, x_api_key=other).json() == {"alerts": []}
    assert service.ask(ALERTS_PATH + path, "DELETE", x_api_key=other).status == 404
    assert service.ask(ALERTS_PATH + path, "DELETE", x_api_key=key).status == 204
    assert service.ask(ALERTS_PATH + path, "DELETE", x_api_key=key).status == 404


@pytest.mark.outcome(
    "The stored rule or message of an alert can't be read",
    "The collector logs the id of that alert and skips it. All others go on. Its owner sees that "
    "it can't be read, and can delete it.",
)
@pytest.mark.parametrize(
    "rule", ["{}", "", '{"measure":"event","key":"gone"}', '{"measure":"price"}']
)
def test_an_alert_that_can_not_be_read_is_listed_and_deleted(service: Service, rule: str) -> None:
    key = key_of(service)
    broken, other = send(service, key).json(), send(service, key).json()
    fired = Fired("BTC", "all", 0.06, START)
    new = [NewMessage(each["id"], "name@example.com", fired) for each in (broken, other)]
    asyncio.run(service.database.write(lambda tx: record_alerts(tx, [], new, START)))
    service.execute("UPDATE alerts SET rule = $1 WHERE id = $2", rule, broken["id"])

    listed = service.ask(ALERTS_PATH, x_api_key=key).json()["alerts"]
    assert {each["id"] for each in listed} == {broken["id"], other["id"]}
    assert other in listed
    [shown] = [each for each in listed if each != other]
    assert (shown["sentence"], shown["state"]) == (UNREADABLE, "paused")
    assert AlertBody.model_validate(shown).id == broken["id"]
    messages = service.ask(f"{ALERTS_PATH}/messages", x_api_key=key).json()["messages"]
    assert [each["alert"] for each in messages] == [other["id"]]
    path = f"/{broken['id']}"
    assert send(service, key, {"state": "active"}, path, "PATCH").json() == shown
    assert service.ask(ALERTS_PATH + path, "DELETE", x_api_key=key).status == 204
    assert service.ask(ALERTS_PATH, x_api_key=key).json() == {"alerts": [other]}


def test_messages_are_read_after_the_last_one(service: Service) -> None:
    key, other = key_of(service), key_of(service, "other@example.com")
    alert = send(service, key).json()
    fired = Fired("BTC", "all", 0.06, START, path="/markets/BTC")
    new = [NewMessage(alert["id"], "name@example.com", fired)] * 2
    asyncio.run(service.database.write(lambda tx: record_alerts(tx, [], new, START)))

    read = service.ask(f"{ALERTS_PATH}/messages", x_api_key=key).json()["messages"]
    assert [each["id"] for each in read] == [1, 2]
    assert read[0] == {
        "at": "2026-11-06T21:20:00.000Z",
        "symbol": "BTC",
        "venue": "all",
        "value": 0.06,
        "text": "The mean BTC funding of all exchanges is above 0.0500 % per 8 h: 0.0600 % per 8 h",
        "id": 1,
        "alert": alert["id"],
        "url": "https://barograph.example/markets/BTC",
    }
    later = service.ask(f"{ALERTS_PATH}/messages?after=1", x_api_key=key)
    assert later.json() == {"messages": read[1:]}
    assert service.ask(f"{ALERTS_PATH}/messages", x_api_key=other).json() == {"messages": []}


@pytest.mark.parametrize("fields", [{}, {"x_api_key": "bg_0_0"}])
def test_no_or_a_wrong_key_gets_401(service: Service, fields: dict[str, str]) -> None:
    for method, path in (
        *(("GET", ""), ("POST", ""), ("POST", "/preview"), ("GET", "/messages")),
        *(("PATCH", "/al_1"), ("DELETE", "/al_1")),
    ):
        answer = service.ask(ALERTS_PATH + path, method, **fields)
        assert (answer.status, answer.json()) == (401, {"error": KeyRequired.text})


@pytest.mark.outcome(
    "A request describes an alert that can never fire, or sends to another mailbox's webhook",
    "400 says what would work. Nothing is stored.",
)
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "must be a JSON object such as"),
        ("{}", "measure: Field required"),
        ({**RULE, "color": 1}, "unknown member `color`; the members are measure, symbols"),
        ({**RULE, "value": "0.05"}, "value: Input should be a valid number"),
        ({**RULE, "value": 50}, "or the rule can't fire"),
        ({**RULE, "symbols": ["NOSUCH"]}, "unknown coin"),
        ({**RULE, "symbols": ["<b>"]}, "coin must be"),
        ({**RULE, "symbols": ["BTC"] * 21}, "20"),
        ({**RULE, "until": "tomorrow"}, "until"),
        ({**RULE, "until": "2020-01-01"}, "in the future"),
        ({**RULE, "targets": ["wh_0123456789abcdef"]}, "targets must be any of mail"),
        ({**RULE, "targets": []}, "targets must be"),
        ({"measure": "brief", "key": "poems"}, "key must be one of funding"),
    ],
)
def test_a_rule_that_can_not_work_is_refused_before_it_is_stored(
    service: Service, body: Any, why: str
) -> None:
    key = key_of(service)
    answer = send(service, key, body)
    assert answer.status == 400
    assert why in answer.json()["error"]
    assert service.ask(ALERTS_PATH, x_api_key=key).json() == {"alerts": []}


def test_the_number_of_alerts_and_of_previews_is_limited_per_mailbox(service: Service) -> None:
    key = key_of(service)
    codes = [send(service, key).status for _ in range(MAX_ALERTS + 1)]
    assert codes == [201] * MAX_ALERTS + [409]
    left = ALERTS.requests - MAX_ALERTS - 1
    codes = [send(service, key, path="/preview").status for _ in range(left + 1)]
    assert codes == [200] * left + [429]
    assert send(service, key, content_type="text/plain").status == 415

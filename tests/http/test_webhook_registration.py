"""`/api/v1/webhooks`: owners of a key register, list and delete endpoints of their own."""

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.timestamps import DAY
from barograph.limits.rate_limits import WEBHOOKS, KeyRequired
from barograph.settings import Settings
from barograph.webhooks.endpoints import WEBHOOK_KEY_PATH, WEBHOOKS_PATH
from barograph.webhooks.keys import load_webhook_keys, rotate_webhook_key
from barograph.webhooks.records import Delivery
from barograph.webhooks.signing import public_key_text
from barograph.webhooks.store import find_webhook
from support.databases import bring_back, take_away
from support.service import Answer, Service

URL = "https://hooks.example/in?token=private"


def key_of(service: Service, email: str = "name@example.com") -> str:
    return service.create_key(email).key


def register(service: Service, key: str, body: Any = None, **fields: str) -> Answer:
    text = body if isinstance(body, str) else json.dumps({"url": URL} if body is None else body)
    given = {"content_type": "application/json", "x_api_key": key, **fields}
    return service.ask(WEBHOOKS_PATH, "POST", body=text, **given)


def test_secret_is_shown_once_and_the_endpoint_waits_for_its_challenge(
    empty_service: Service,
) -> None:
    key = key_of(empty_service)
    made = register(
        empty_service, key, {"url": URL, "types": ["regime.changed"], "symbols": ["btc"]}
    )
    new = made.json()
    listed = empty_service.ask(WEBHOOKS_PATH, x_api_key=key)
    attempt = Delivery("msg_1", 1, 1_794_000_000_000, 1, None, "timeout", 9)
    sql = "INSERT INTO webhook_deliveries VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    empty_service.execute(sql, new["id"], 1, *attempt)
    deliveries = empty_service.ask(f"{WEBHOOKS_PATH}/{new['id']}/deliveries", x_api_key=key)

    assert made.status == 201
    members = ["id", "url", "types", "symbols", "format", "state", "created_at", "secret"]
    assert list(new) == members
    assert (new["types"], new["symbols"], new["state"]) == (["regime.changed"], ["BTC"], "pending")
    assert new["secret"].startswith("whsec_")
    assert new["secret"] not in listed.body.decode()
    [shown] = listed.json()["webhooks"]
    unsent = {"last_delivery_at": None, "failures": 0, "failing_since": None, "why": None}
    assert {"secret": new["secret"], **shown} == {**new, **unsent}
    [logged] = deliveries.json()["deliveries"]
    assert logged == {**attempt._asdict(), "at": "2026-11-06T21:20:00.000Z"}
    for answer in (made, listed, deliveries):
        assert "no-store" in answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers


def test_symbols_are_found_by_name_and_unknown_ones_are_refused(service: Service) -> None:
    key = key_of(service)
    named = register(service, key, {"url": URL, "symbols": ["bitcoin", "BTCUSDT", "pepe"]})
    unknown = register(service, key, {"url": URL, "symbols": ["BTC", "NOSUCH"]})

    assert named.json()["symbols"] == ["1000PEPE", "BTC"]
    assert unknown.status == 400
    assert "/api/v1/perpetuals" in unknown.json()["error"]


def test_webhooks_belong_to_the_mailbox_and_are_invisible_to_others(service: Service) -> None:
    first, other = key_of(service), key_of(service, "other@example.com")
    webhook = register(service, first).json()["id"]
    place = f"{WEBHOOKS_PATH}/{webhook}"

    assert service.ask(WEBHOOKS_PATH, x_api_key=other).json() == {"webhooks": []}
    assert service.ask(f"{place}/deliveries", x_api_key=other).status == 404
    assert service.ask(place, "DELETE", x_api_key=other).status == 404
    replaced = key_of(service)
    assert len(service.ask(WEBHOOKS_PATH, x_api_key=replaced).json()["webhooks"]) == 1
    gone = service.ask(place, "DELETE", x_api_key=replaced)
    assert (gone.status, gone.body) == (204, b"")
    for unknown in (place, f"{WEBHOOKS_PATH}/wh%00", f"{WEBHOOKS_PATH}/%ED%A0%80"):
        assert service.ask(unknown, "DELETE", x_api_key=replaced).status == 404
        assert service.ask(f"{unknown}/deliveries", x_api_key=replaced).status == 404


@pytest.mark.parametrize("fields", [{}, {"x_api_key": "bg_0_0"}])
def test_no_or_a_wrong_key_gets_401_that_says_where_to_get_one(
    service: Service, fields: dict[str, str]
) -> None:
    for method, path in (
        *(("GET", WEBHOOKS_PATH), ("POST", WEBHOOKS_PATH)),
        *(("DELETE", f"{WEBHOOKS_PATH}/wh_1"), ("GET", f"{WEBHOOKS_PATH}/wh_1/deliveries")),
    ):
        answer = service.ask(path, method, **fields)
        assert (answer.status, answer.json()) == (401, {"error": KeyRequired.text})
        assert answer.headers["www-authenticate"] == 'ApiKey header="X-API-Key"'


@pytest.mark.parametrize(
    "body",
    [
        *("", "[]", "{}", '{"url": 1}', f'{{"url": "{URL}", "url": "{URL}"}}', "\xff"),
        *({"url": URL, "more": 1}, {"url": URL, "types": ["no.such"]}, {"url": URL, "types": "a"}),
        *({"url": URL, "symbols": ["B-T"]}, {"url": URL, "symbols": ["A"] * 21}),
        *({"url": "http://hooks.example/"}, {"url": "https://10.0.0.1/"}),
        {"url": "http://127.0.0.1:8000/"},  # which only a demo takes
    ],
)
def test_malformed_registration_gets_400_and_stores_nothing(service: Service, body: Any) -> None:
    key = key_of(service)
    answer = register(service, key, body)

    assert (answer.status, list(answer.json())) == (400, ["error"])
    assert service.ask(WEBHOOKS_PATH, x_api_key=key).json() == {"webhooks": []}


def test_an_unknown_member_is_told_which_members_there_are(service: Service) -> None:
    answer = register(service, key_of(service), {"url": URL, "type": "regime.changed"})
    members = "url, types, symbols, format"
    assert answer.json() == {"error": f"unknown member `type`; the members are {members}"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"url": "https://api.telegram.org/bot1:a/sendMessage", "format": "telegram"}, "chat_id"),
        ({"url": "https://ntfy.sh/", "format": "ntfy"}, "topic"),
        ({"url": URL, "format": "slack", "types": ["regime.changed"]}, "leave out types"),
        ({"url": URL, "format": "irc"}, "format"),
    ],
)
def test_chat_target_that_can_not_work_is_refused(
    service: Service, body: dict[str, Any], why: str
) -> None:
    answer = register(service, key_of(service), body)
    assert (answer.status, why in answer.json()["error"]) == (400, True)


def test_chat_target_is_active_at_once(service: Service) -> None:
    made = register(service, key_of(service), {"url": "https://ntfy.sh/me", "format": "ntfy"})
    assert (made.status, made.json()["state"], made.json()["format"]) == (201, "active", "ntfy")


def test_registrations_are_limited_per_mailbox(service: Service) -> None:
    key = key_of(service)
    answers = [register(service, key) for _ in range(6)]
    assert [each.status for each in answers] == [201] * 5 + [409]
    assert "delete one first" in answers[-1].json()["error"]
    for _ in range(WEBHOOKS.requests - 6):
        register(service, key)
    assert register(service, key).status == 429
    assert register(service, key, content_type="text/plain").status == 415
    assert register(service, key, f'{{"url": "{"a" * 20_000}"}}').status == 413


def test_anyone_may_read_the_public_keys_also_during_a_rotation(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    for is_rotated in (False, True):
        if is_rotated:
            rotate_webhook_key(settings, retire=False)
        own, *previous = load_webhook_keys(settings)
        with closing(Service(tmp_path)) as service:
            answer = service.ask(WEBHOOK_KEY_PATH)
            assert service.ask(WEBHOOK_KEY_PATH, "HEAD").status == 200

        assert (answer.status, len(previous)) == (200, is_rotated)
        assert answer.json()["public_key"] == public_key_text(own)
        assert answer.json()["previous_keys"] == [public_key_text(each) for each in previous]
        assert answer.headers["access-control-allow-origin"] == "*"


def test_owner_replaces_the_secret_and_the_old_one_signs_for_another_day(service: Service) -> None:
    key = key_of(service)
    old = register(service, key).json()
    path = f"{WEBHOOKS_PATH}/{old['id']}/secret"
    assert service.ask(path, "POST", x_api_key=key_of(service, "other@example.com")).status == 404
    service.ask(path, "POST", x_api_key=key)  # this response is lost
    answer = service.ask(path, "POST", x_api_key=key)

    assert answer.status == 200
    assert "no-store" in answer.headers["cache-control"]
    new = answer.json()["secret"]
    assert answer.json() == {"secret": new}
    assert new not in (old["secret"], "")
    stored, now = asyncio.run(find_webhook(service.database, old["id"])), service.clock()
    assert stored.secrets(now + DAY - 1) == [new, old["secret"]]
    assert stored.secrets(now + DAY) == [new]


def test_without_its_database_the_service_says_when_to_try_again(service: Service) -> None:
    key = key_of(service)
    take_away(service.settings.database_path)
    answer = register(service, key)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert service.ask(WEBHOOK_KEY_PATH).status == 200
    bring_back(service.settings.database_path)

"""`POST /api/v1/keys`: every answer of it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.keys.email_address import INVALID
from barograph.keys.endpoints import INVALID_BODY, NO_MAIL, NOT_JSON, OTHER_SITE
from barograph.kit.database import Row
from barograph.kit.documents import Message
from barograph.kit.http import Receive, Scope, Send
from barograph.limits.rate_limits import KEYS_PATH, REGISTRATIONS
from support.databases import take_away
from support.pages import MAIL
from support.service import BASE_URL, Answer, Service, ask, asked


class Desk(Service):
    """A service that is asked for keys."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **{**MAIL, **settings})

    def post(self, body: str, **options: Any) -> Answer:
        fields = {"content_type": "application/json", "host": "barograph.example", **options}
        return self.ask(KEYS_PATH, "POST", body=body, **fields)

    def register(self, email: str, **options: Any) -> Answer:
        return self.post(json.dumps({"email": email}), **options)

    def mails(self) -> list[Row]:
        return self.rows("SELECT recipient, body FROM outbox ORDER BY created_at")

    def redeem(self) -> Answer:
        """Use the link of the first mail."""
        link = next(line for line in self.mails()[0][1].splitlines() if "/keys/" in line)
        path = link.removeprefix(BASE_URL)
        return self.ask(path, "POST", accept="application/json")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def assert_error(answer: Answer, status: int, message: str) -> None:
    assert (answer.status, answer.json()) == (status, {"error": message})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.contract("auth.key-registration")
def test_who_asks_is_mailed_a_link_that_yields_a_key(desk: Desk) -> None:
    answer = desk.register("Name@Example.com")

    assert answer.status == 202
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["ratelimit-policy"] == '"register";q=10;w=3600'
    assert answer.headers["ratelimit"] == '"register";r=9;t=3600'
    assert list(answer.json()) == ["ok", "message"]
    assert answer.json()["ok"] is True
    assert "24 hours" in answer.json()["message"]
    assert [recipient for recipient, _ in desk.mails()] == ["Name@example.com"]
    assert asyncio.run(desk.keys.verify(desk.redeem().json()["key"])) is not None


def test_answer_is_the_same_for_known_unknown_and_limited_addresses(desk: Desk) -> None:
    unknown = desk.register("name@example.com")
    assert desk.redeem().status == 200
    known = desk.register("name@example.com")
    desk.register("NAME+x@example.com")
    assert len(desk.mails()) == 3
    overfed = desk.register("name@example.com")

    assert len(desk.mails()) == 3
    assert unknown.body == known.body == overfed.body
    assert {each.status for each in (unknown, known, overfed)} == {202}
    assert overfed.json()["message"] == (
        "If this mailbox was sent fewer than 3 links in the last 24 hours, one is on its way; "
        "open it within 24 hours to get the key."
    ), "true of the one that was mailed nothing more"
    assert list(unknown.headers) == list(known.headers) == list(overfed.headers)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", INVALID_BODY),
        ('{"email":"a@b.example","admin":true}', INVALID_BODY),
        ('{"email":"name"}', INVALID),
        (r'{"email":"name@example.com\r\nBcc: other@example.com"}', INVALID),
    ],
)
def test_what_is_not_one_address_is_400_and_is_not_repeated(
    desk: Desk, body: str, message: str
) -> None:
    assert_error(desk.post(body), 400, message)
    assert desk.mails() == []


def test_a_body_may_have_4096_bytes_and_the_rest_is_not_waited_for(desk: Desk) -> None:
    body = '{"email":"name@example.com"}'
    assert desk.post(body.ljust(4_096)).status == 202
    assert_error(desk.post(body.ljust(4_097)), 413, "the body may have at most 4,096 bytes")
    fields = [("content-type", "application/json")]
    endless = ask(desk.app, KEYS_PATH, "POST", fields, body=b" " * 4_097, stalls=True)
    assert endless.status == 413


async def test_a_caller_that_leaves_half_way_changes_nothing(desk: Desk) -> None:
    async def leave(scope: Scope, _: Receive, send: Send) -> None:
        part: Message = {"type": "http.request", "body": b'{"email":"name', "more_body": True}
        messages = iter([part, {"type": "http.disconnect"}])

        async def receive() -> Message:
            return next(messages)

        await desk.app(scope, receive, send)

    answer = await asked(leave, KEYS_PATH, "POST", [("content-type", "application/json")])
    assert answer.status == 400
    assert await desk.database.fetch("SELECT * FROM outbox") == []


@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
@pytest.mark.contract("limits.other-endpoints")
def test_ten_registrations_an_hour_come_from_one_address(desk: Desk) -> None:
    for number in range(10):
        assert desk.register(f"name{number}@example.com").status == 202
    desk.clock.pass_seconds(60)

    refused = desk.register("other@example.com")
    assert_error(refused, 429, refused.json()["error"])
    assert "10 registrations" in refused.json()["error"]
    assert "try again in 3540 seconds" in refused.json()["error"]
    assert refused.headers["retry-after"] == "3540"
    assert refused.headers["ratelimit"] == '"register";r=0;t=3540'
    assert len(desk.mails()) == 10
    assert desk.register("other@example.com", peer="203.0.113.8").status == 202
    desk.clock.pass_seconds(3_540)
    assert desk.register("other@example.com").status == 202


def test_a_malformed_request_is_not_charged(desk: Desk) -> None:
    for _ in range(20):
        assert desk.register("nonsense").status == 400
    assert desk.register("name@example.com").headers["x-ratelimit-remaining"] == "9"


@pytest.mark.parametrize("is_trusted", [False, True])
def test_forwarding_brings_a_new_allowance_only_from_a_trusted_proxy(
    tmp_path: Path, is_trusted: bool
) -> None:
    proxies = "203.0.113.0/24" if is_trusted else ""
    desk = Desk(tmp_path, trusted_proxies=proxies)
    for number in range(10):
        desk.register(f"name{number}@example.com", x_forwarded_for="198.51.100.1")
    same, other = (
        desk.register("other@example.com", x_forwarded_for=f"198.51.100.{caller}").status
        for caller in (1, 2)
    )
    assert (same, other) == (429, 202 if is_trusted else 429)
    desk.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {"origin": BASE_URL.replace("https", "http")},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "https://other.barograph.example"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "application/jsonp"},
        {"content_type": ""},
        {"content_type": "*/*"},
    ],
)
def test_pages_of_another_site_get_403_and_what_is_not_declared_as_json_415(
    desk: Desk, fields: dict[str, str]
) -> None:
    refusal = (415, NOT_JSON) if "content_type" in fields else (403, OTHER_SITE)
    assert_error(desk.register("name@example.com", **fields), *refusal)
    assert desk.mails() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": BASE_URL},
        {"origin": "http://localhost:8080", "host": "localhost:8080"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"content_type": "Application/JSON ; charset=utf-8"},
    ],
)
def test_pages_of_the_same_origin_may_ask(desk: Desk, fields: dict[str, str]) -> None:
    assert desk.register("name@example.com", **fields).status == 202


@pytest.mark.outcome(
    "No mail server is configured when someone registers a key", "503 with an explanation."
)
def test_without_mail_registration_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, smtp_url="", mail_from="")
    assert_error(desk.register("name@example.com"), 503, NO_MAIL)
    desk.close()


@pytest.mark.outcome(
    "The database is unavailable when someone requests a key",
    "503 with `Retry-After`. A link still works afterwards.",
)
def test_unavailable_database_is_503_with_retry_after(desk: Desk) -> None:
    take_away(desk.settings.database_path)
    answer = desk.register("name@example.com")
    assert_error(answer, 503, "key registration is unavailable right now; try again shortly")
    assert answer.headers["retry-after"] == "5"


def test_failed_writes_use_up_no_limit(desk: Desk) -> None:
    desk.execute("ALTER TABLE outbox RENAME TO away")
    failures = 2 * REGISTRATIONS.requests
    assert {desk.register("name@example.com").status for _ in range(failures)} == {503}
    desk.execute("ALTER TABLE away RENAME TO outbox")
    answers = [desk.register("name@example.com") for _ in range(3)]
    assert [answer.status for answer in answers] == [202] * 3
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["9", "8", "7"]
    assert len(desk.mails()) == 3

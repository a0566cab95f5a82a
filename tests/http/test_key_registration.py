"""`POST /api/v1/keys`: every answer of it, over the route and a real database."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import RequestError
from barograph.keys.api_keys import ApiKeys
from barograph.keys.email_address import INVALID
from barograph.keys.endpoints import INVALID_BODY, NO_MAIL, NOT_JSON, OTHER_SITE, key_routes
from barograph.keys.registration import Registrations
from barograph.kit.database import Row
from barograph.kit.http import error_response
from barograph.limits.callers import Network
from barograph.limits.rate_limits import KEYS_PATH, REGISTRATIONS, RateLimiter
from barograph.limits.stores import MemoryStore
from support.clock import HandClock
from support.databases import take_away, upgraded_database, write_lock_held

BASE_URL = "https://barograph.example"
PROXY = [ip_network("203.0.113.0/24")]


class Desk:
    """The route, alone, over a database of its own."""

    def __init__(self, folder: Path, *, mail: bool = True, trusted: Sequence[Network] = ()) -> None:
        self.clock = HandClock()
        self.path = folder / "desk.sqlite3"
        self.database = upgraded_database(self.path, write_busy_ms=1)
        store = MemoryStore(self.clock)
        keys = ApiKeys(self.database, b"p" * 32, self.clock)
        self.registrations = Registrations(self.database, keys, base_url=BASE_URL, clock=self.clock)
        limiter = RateLimiter(store, keys.verify, trusted)
        routes = key_routes(self.registrations if mail else None, limiter, self.clock)
        self.app = Starlette(routes=routes.routes, exception_handlers={RequestError: _answer_error})

    def post(
        self,
        body: bytes | AsyncIterator[bytes] | dict[str, Any],
        *,
        peer: str = "203.0.113.7",
        **headers: str,
    ) -> httpx2.Response:
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        given = {"content_type": "application/json", **headers}
        fields = {name.replace("_", "-"): value for name, value in given.items()}

        async def call() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.app, client=(peer, 40_000))
            async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as client:
                return await client.post(KEYS_PATH, content=content, headers=fields)

        return asyncio.run(call())

    def ask(self, email: str, **options: Any) -> httpx2.Response:
        return self.post({"email": email}, **options)

    def mails(self) -> list[Row]:
        return asyncio.run(
            self.database.read(
                lambda tx: tx.fetch("SELECT recipient, body FROM outbox ORDER BY created_at")
            )
        )


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.status, error.message)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    asyncio.run(desk.database.close())


def assert_error(answer: httpx2.Response, status: int, message: str) -> None:
    assert (answer.status_code, answer.json()) == (status, {"error": message})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.contract("auth.key-registration")
def test_who_asks_is_mailed_a_link_that_yields_a_key(desk: Desk) -> None:
    answer = desk.ask("Name@Example.com")

    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["ratelimit-policy"] == '"register";q=10;w=3600'
    assert answer.headers["ratelimit"] == '"register";r=9;t=3600'
    assert list(answer.json()) == ["ok", "message"]
    assert answer.json()["ok"] is True
    assert "24 hours" in answer.json()["message"]
    ((recipient, body),) = desk.mails()
    assert recipient == "Name@example.com"
    (link,) = (line for line in body.splitlines() if line.startswith(f"{BASE_URL}/keys/"))
    new = asyncio.run(desk.registrations.redeem(link.rpartition("/")[2]))
    assert new.email == "Name@example.com"


def test_answer_is_the_same_for_known_unknown_and_limited_addresses(desk: Desk) -> None:
    unknown = desk.ask("name@example.com")
    link = next(line for line in desk.mails()[0][1].splitlines() if "/keys/" in line)
    asyncio.run(desk.registrations.redeem(link.rpartition("/")[2]))
    known = desk.ask("name@example.com")
    desk.ask("NAME+x@example.com")
    assert len(desk.mails()) == 3
    overfed = desk.ask("name@example.com")

    assert len(desk.mails()) == 3
    assert unknown.content == known.content == overfed.content
    assert {each.status_code for each in (unknown, known, overfed)} == {202}
    assert overfed.json()["message"] == (
        "If this mailbox was sent fewer than 3 links in the last 24 hours, one is on its way; "
        "open it within 24 hours to get the key."
    ), "true of the one that was mailed nothing more"
    assert list(unknown.headers) == list(known.headers) == list(overfed.headers)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", INVALID_BODY),
        (b'{"email":"a@b.example","admin":true}', INVALID_BODY),
        ({"email": "name"}, INVALID),
        ({"email": "name@example.com\r\nBcc: other@example.com"}, INVALID),
    ],
)
def test_what_is_not_one_address_is_400_and_is_not_repeated(
    desk: Desk, body: bytes | dict[str, Any], message: str
) -> None:
    assert_error(desk.post(body), 400, message)
    assert desk.mails() == []


def test_a_body_may_have_4096_bytes_and_not_one_more(desk: Desk) -> None:
    body = b'{"email":"name@example.com"}'
    assert desk.post(body.ljust(4_096)).status_code == 202
    assert_error(desk.post(body.ljust(4_097)), 413, "the body may have at most 4,096 bytes")


def test_a_body_without_an_end_is_not_waited_for(desk: Desk) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            assert given < 100
            yield b" " * 1_024

    assert desk.post(endless()).status_code == 413


def test_a_caller_that_leaves_half_way_changes_nothing(desk: Desk) -> None:
    sent: asyncio.Queue[Any] = asyncio.Queue()
    received: asyncio.Queue[Any] = asyncio.Queue()
    part = {"type": "http.request", "body": b'{"email":"name@exam', "more_body": True}
    for message in (part, {"type": "http.disconnect"}):
        received.put_nowait(message)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": KEYS_PATH,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": None,
    }
    asyncio.run(desk.app(scope, received.get, sent.put))
    assert sent.get_nowait()["status"] == 400
    assert desk.mails() == []


@pytest.mark.contract("limits.other-endpoints")
def test_ten_registrations_an_hour_come_from_one_address(desk: Desk) -> None:
    for number in range(10):
        assert desk.ask(f"name{number}@example.com").status_code == 202
    desk.clock.pass_seconds(60)

    refused = desk.ask("other@example.com")
    assert_error(refused, 429, refused.json()["error"])
    assert "10 registrations" in refused.json()["error"]
    assert "try again in 3540 seconds" in refused.json()["error"]
    assert refused.headers["retry-after"] == "3540"
    assert refused.headers["ratelimit"] == '"register";r=0;t=3540'
    assert len(desk.mails()) == 10
    assert desk.ask("other@example.com", peer="203.0.113.8").status_code == 202
    desk.clock.pass_seconds(3_540)
    assert desk.ask("other@example.com").status_code == 202


def test_a_malformed_request_is_not_charged(desk: Desk) -> None:
    for _ in range(20):
        assert desk.ask("nonsense").status_code == 400
    assert desk.ask("name@example.com").headers["x-ratelimit-remaining"] == "9"


@pytest.mark.parametrize("is_trusted", [False, True])
def test_forwarding_brings_a_new_allowance_only_from_a_trusted_proxy(
    tmp_path: Path, is_trusted: bool
) -> None:
    desk = Desk(tmp_path, trusted=PROXY if is_trusted else ())
    for number in range(10):
        desk.ask(f"name{number}@example.com", x_forwarded_for="198.51.100.1")
    same, other = (
        desk.ask("other@example.com", x_forwarded_for=f"198.51.100.{caller}").status_code
        for caller in (1, 2)
    )
    assert (same, other) == (429, 202 if is_trusted else 429)
    asyncio.run(desk.database.close())


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
    assert_error(desk.ask("name@example.com", **fields), *refusal)
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
    assert desk.ask("name@example.com", **fields).status_code == 202


@pytest.mark.outcome(
    "No mail server is configured when someone registers a key", "503 with an explanation."
)
def test_without_mail_registration_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, mail=False)
    assert_error(desk.ask("name@example.com"), 503, NO_MAIL)
    asyncio.run(desk.database.close())


@pytest.mark.outcome(
    "The database is unavailable when someone requests a key", "503 with `Retry-After`."
)
def test_unavailable_database_is_503_with_retry_after(desk: Desk) -> None:
    take_away(desk.path)
    answer = desk.ask("name@example.com")
    assert_error(answer, 503, "key registration is unavailable right now; try again shortly")
    statuses = {desk.ask("name@example.com").status_code for _ in range(2 * REGISTRATIONS.requests)}
    assert statuses == {503}  # what cannot be stored is not charged
    assert answer.headers["retry-after"] == "5"


def test_failed_writes_use_up_no_limit(desk: Desk) -> None:
    with write_lock_held(desk.path):
        statuses = [desk.ask("name@example.com").status_code for _ in range(12)]
    assert statuses == [503] * 12
    answers = [desk.ask("name@example.com") for _ in range(3)]
    assert [each.status_code for each in answers] == [202] * 3
    assert [each.headers["x-ratelimit-remaining"] for each in answers] == ["9", "8", "7"]
    assert len(desk.mails()) == 3

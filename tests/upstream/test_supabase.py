"""A Supabase project whose replies may be anything."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import httpx2
import pytest

from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.settings import Settings
from barograph.upstream.identity_providers import identity_provider
from barograph_demo.servers.identity import API_KEY
from support import identities
from support.clock import HandClock
from support.identities import PROJECT, identity_settings, outcome
from support.tokens import SUBJECT, claims, key, key_set, token

KEYS = "/auth/v1/.well-known/jwks.json"
USER = "/auth/v1/user"
CONFIRMED = "2026-01-05T09:00:00.123456Z"


class Replies:
    """A provider that says what a test wants, and remembers what it was asked."""

    def __init__(self, record: Any, published: bytes | None = None) -> None:
        self.record = record
        self.published = key_set() if published is None else published
        self.seen: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if request.url.path == KEYS:
            return httpx2.Response(200, content=self.published)
        if isinstance(self.record, httpx2.Response | Exception):
            return self._odd(self.record)
        body = self.record if isinstance(self.record, bytes) else json.dumps(self.record).encode()
        return httpx2.Response(200, content=body)

    @staticmethod
    def _odd(record: httpx2.Response | Exception) -> httpx2.Response:
        if isinstance(record, Exception):
            raise record
        return record


def judge(replies: Replies, text: str | None = None, **changes: Any) -> str:
    transport = httpx2.MockTransport(replies)
    provider = identity_provider(identity_settings(**changes), HandClock(), transport)
    return identities.judge(provider, token() if text is None else text)


def record(**changes: Any) -> dict[str, Any]:
    good = {"id": SUBJECT, "email_confirmed_at": CONFIRMED, "is_anonymous": False}
    return {name: value for name, value in {**good, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"is_anonymous": ...},
        {"banned_until": None},
        {"banned_until": ""},
        {"banned_until": "2026-11-06T21:19:59Z"},
        {"banned_until": "0001-01-01T00:00:00Z"},
        {"deleted_at": None},
        {"email_confirmed_at": "2026-01-05T09:00:00+02:00"},
    ],
)
def test_a_record_of_a_confirmed_user_is_accepted(changes: dict[str, Any]) -> None:
    assert judge(Replies(record(**changes))) == SUBJECT


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "another"},
        {"id": SUBJECT.upper()},
        {"email_confirmed_at": ...},
        {"email_confirmed_at": None},
        {"email_confirmed_at": ""},
        {"email_confirmed_at": "0001-01-01T00:00:00Z"},
        {"email_confirmed_at": ..., "confirmed_at": CONFIRMED, "phone_confirmed_at": CONFIRMED},
        {"email_confirmed_at": ..., "user_metadata": {"email_verified": True}},
        {"is_anonymous": True},
        {"is_anonymous": "false"},
        {"is_anonymous": 0},
        {"is_anonymous": None},
        {"banned_until": "2026-11-06T21:20:00.001Z"},
        {"banned_until": "9999-12-31T23:59:59-23:59"},
        {"deleted_at": CONFIRMED},
    ],
)
def test_a_record_that_says_no_is_refused(changes: dict[str, Any]) -> None:
    assert judge(Replies(record(**changes))) == "refused"


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"[]", b"null", b"<html></html>", b'{"id":"x"', b"\xff", b"x" * 70_000),
        b'{"id":"%b","id":"x"}' % SUBJECT.encode(),
        b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        record(id=...),
        record(id=7),
        record(email_confirmed_at=True),
        record(email_confirmed_at=1_794_000_000),
        record(email_confirmed_at="yes"),
        record(email_confirmed_at="2026-01-05T09:00:00"),
        record(banned_until="forever"),
        record(banned_until=0),
        record(deleted_at=[]),
    ],
    ids=count(),
)
def test_a_record_that_cannot_be_understood_is_unavailable(said: Any) -> None:
    assert judge(Replies(said)) == "unavailable"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "no_authorization"),
        (403, "bad_jwt"),
        (403, "session_not_found"),
        (403, "session_expired"),
        (403, "user_not_found"),
        (403, "user_banned"),
    ],
)
def test_a_provider_that_does_not_accept_the_token_or_its_user_refuses(
    status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barograph")
    older = {"code": status, "error_code": code, "msg": "no"}
    newer = {"code": code, "message": "no"}
    for body in (older, newer):
        caplog.clear()
        assert judge(Replies(httpx2.Response(status, json=body))) == "refused"
        assert _logged(caplog) == [("token refused by the identity provider", status, code)]


@pytest.mark.outcome(
    "The identity provider rejects `BAROGRAPH_IDENTITY_API_KEY`, or the URL is wrong",
    "Tokens get 503. The log has the status of the refusal.",
)
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"message": "No API key found in request", "hint": "No `apikey` header"}, None),
        (401, {"message": "Invalid API key", "hint": "Double check your API key."}, None),
        (401, {"message": "Unauthorized"}, None),
        (401, {"code": 401, "msg": "no"}, None),
        (403, {"code": 403, "error_code": "not_admin", "msg": "no"}, "not_admin"),
        (403, {"code": "unknown", "message": "no"}, "unknown"),
        (403, {"code": 403, "error_code": ["bad_jwt"], "msg": "no"}, None),
        (403, {"error_code": "bad_jwt\n"}, None),
        (403, {"error_code": "name@example.com"}, None),
        (403, [{"error_code": "bad_jwt"}], None),
        (403, "<html>Forbidden</html>", None),
        (404, {"code": 404, "msg": "404 page not found"}, None),
        (404, {"error_code": "user_not_found"}, "user_not_found"),
        (429, {"error_code": "over_request_rate_limit"}, "over_request_rate_limit"),
        (500, {"error_code": "bad_jwt"}, "bad_jwt"),
    ],
    ids=count(),
)
def test_refusal_not_clearly_about_the_token_is_unavailable_and_logged(
    status: int, body: Any, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert judge(Replies(httpx2.Response(status, json=body))) == "unavailable"
    assert _logged(caplog) == [("question refused by the identity provider", status, code)]


def _logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str | None]]:
    records: list[Any] = caplog.records
    return [(each.message, each.status, each.code) for each in records if "status" in vars(each)]


def test_a_trailing_slash_of_the_projects_address_changes_nothing() -> None:
    replies = Replies(record())
    assert judge(replies, url=f"{PROJECT}/") == SUBJECT
    assert [str(request.url) for request in replies.seen] == [PROJECT + KEYS, PROJECT + USER]


@pytest.mark.parametrize(
    "reply",
    [
        *(httpx2.Response(status, json=record()) for status in (201, 204, 400, 418, 429, 500, 503)),
        httpx2.Response(302, headers={"Location": f"{PROJECT}/auth/v1/user2"}),
        httpx2.Response(307, headers={"Location": "http://evil.example/"}),
        httpx2.Response(200, headers={"Content-Encoding": "gzip"}, content=b""),
        *(httpx2.ConnectError("x"), httpx2.ReadError("x"), httpx2.RemoteProtocolError("x")),
        *(httpx2.ReadTimeout("x"), OSError("x")),
    ],
    ids=count(),
)
def test_any_other_answer_is_unavailable(reply: Any) -> None:
    replies = Replies(reply)
    assert judge(replies) == "unavailable"
    assert [request.url.path for request in replies.seen] == [KEYS, USER]


@pytest.mark.parametrize("value", [True, "false", "true", 0, 1, None, []])
def test_a_token_that_does_not_deny_being_anonymous_plainly_is_refused(value: Any) -> None:
    said = {**claims(), "is_anonymous": value}
    replies = Replies(record())
    assert judge(replies, token(said)) == "refused"
    assert [request.url.path for request in replies.seen] == [KEYS]
    assert judge(Replies(record()), token({**claims(), "is_anonymous": False})) == SUBJECT


class Dripping(httpx2.AsyncByteStream):
    """A body that begins and then never goes on."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"id":'
        await asyncio.Event().wait()


class Endless(httpx2.AsyncByteStream):
    """A body that never ends."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" " * 4096


@pytest.mark.parametrize("stream", [Dripping, Endless])
def test_a_body_that_does_not_end_is_given_up(stream: Callable[[], httpx2.AsyncByteStream]) -> None:
    assert judge(Replies(httpx2.Response(200, stream=stream()))) == "unavailable"


def test_the_provider_is_asked_with_the_token_and_its_public_key_and_nothing_else() -> None:
    replies = Replies(record())
    text = token()
    assert judge(replies, text) == SUBJECT
    keys, user = replies.seen
    assert "authorization" not in keys.headers
    assert user.headers["authorization"] == f"Bearer {text}"
    assert user.headers["apikey"] == API_KEY
    assert user.headers["accept-encoding"] == "identity"


async def test_a_cookie_of_one_answer_does_not_go_out_with_the_next_question() -> None:
    replies = Replies(record())

    async def answer(request: httpx2.Request) -> httpx2.Response:
        reply = await replies(request)
        reply.headers["Set-Cookie"] = "session=of-somebody; Path=/"
        return reply

    provider = identity_provider(identity_settings(), HandClock(), httpx2.MockTransport(answer))
    assert [await outcome(provider, token()) for _ in range(2)] == [SUBJECT] * 2
    await provider.close()
    assert len(replies.seen) == 3
    assert all("cookie" not in request.headers for request in replies.seen)


async def test_a_record_counts_for_a_minute() -> None:
    replies = Replies(record())
    clock = HandClock()

    transport = httpx2.MockTransport(replies)
    provider = identity_provider(identity_settings(), clock, transport)
    text = token()
    for _ in range(5):
        await provider.identify(text)
    assert len(replies.seen) == 2
    replies.record = record(banned_until="2027-01-01T00:00:00Z")
    assert await provider.identify(text) == Identity(SUBJECT)
    clock.pass_seconds(60)
    assert await outcome(provider, text) == "refused"
    await provider.close()


@pytest.mark.parametrize("status", [None, 401, 500])
async def test_neither_token_nor_key_is_in_an_error(status: int | None) -> None:
    text = token()
    reply = httpx2.ConnectError(text) if status is None else httpx2.Response(status)
    transport = httpx2.MockTransport(Replies(reply))
    provider = identity_provider(identity_settings(), HandClock(), transport)
    with pytest.raises((IdentityRefused, IdentityUnavailable)) as caught:
        await provider.identify(text)
    await provider.close()
    for secret in (text, API_KEY, PROJECT):
        assert secret not in str(caught.value)


def test_without_a_provider_every_token_is_refused() -> None:
    assert asyncio.run(outcome(identity_provider(Settings(), HandClock()), token())) == "refused"


def test_the_keys_of_a_provider_do_not_verify_tokens_of_another_audience() -> None:
    replies = Replies(record())
    assert judge(replies, token(claims(aud="other"))) == "refused"
    assert judge(replies, token(claims(aud="other")), identity_audience="other") == SUBJECT
    assert judge(Replies(record(), key_set(key("EC", 1)))) == "refused"

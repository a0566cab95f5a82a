"""An OpenID Connect issuer whose replies may be anything."""

import asyncio
import json
from itertools import count
from typing import Any

import httpx2
import pytest

from barograph.upstream.identity_providers import identity_provider, resolve
from support import identities
from support.clock import HandClock
from support.identities import identity_settings, resolve_example
from support.tokens import SUBJECT, claims, key_set, token

ISSUER = "https://issuer.example/realm"
LOCAL_ISSUER = "http://127.0.0.1:4711/realm"
LOCAL_KEYS = "http://localhost:4712/jwks"
KEYS = "https://keys.example/jwks"
USERINFO = "https://issuer.example/me"


class Replies:
    """An issuer that says what a test wants, and remembers what it was asked."""

    def __init__(self, **changes: Any) -> None:
        self.document: Any = {
            "issuer": ISSUER,
            "jwks_uri": KEYS,
            "userinfo_endpoint": USERINFO,
            **changes,
        }
        self.userinfo: Any = {"sub": SUBJECT, "email_verified": True}
        self.seen: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        match str(request.url):
            case address if address.endswith("/realm/.well-known/openid-configuration"):
                return _reply(self.document)
            case address if address.endswith("/jwks"):
                return httpx2.Response(200, content=key_set())
            case address if address.endswith("/me"):
                return _reply(self.userinfo)
        return httpx2.Response(404)


def _reply(said: Any) -> httpx2.Response:
    if isinstance(said, httpx2.Response):
        return said
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return httpx2.Response(200, content=body)


def _challenge(status: int, text: str) -> httpx2.Response:
    return httpx2.Response(status, headers={"WWW-Authenticate": text})


def judge(replies: Replies, said: dict[str, Any], **changes: Any) -> str:
    fixed: dict[str, Any] = {"url": ISSUER, "identity": "oidc"}
    settings, network = identity_settings(**fixed | changes), httpx2.MockTransport(replies)
    provider = identity_provider(settings, HandClock(), network, resolve_example, seconds=10)
    return identities.judge(provider, token(said))


def said(**changes: Any) -> dict[str, Any]:
    return claims(**{"iss": ISSUER, "email_verified": True, **changes})


def test_the_claim_in_the_token_must_be_a_plain_true() -> None:
    replies = Replies()
    assert judge(replies, said()) == SUBJECT
    assert [str(request.url) for request in replies.seen][1:] == [KEYS]
    for value in (False, "true", 1, None, [True]):
        assert judge(Replies(), said(email_verified=value)) == "refused"
    assert judge(Replies(), said(), identity_email_claim="verified") == "refused"
    assert judge(Replies(), said(verified=True), identity_email_claim="verified") == SUBJECT


@pytest.mark.outcome(
    "An access token has no `aud`, as with AWS Cognito",
    "401, unless `BAROGRAPH_IDENTITY_AUDIENCE_CLAIM` names another claim.",
)
@pytest.mark.parametrize(
    ("token_claims", "expected"),
    [
        ({"client_id": "app", "token_use": "access"}, SUBJECT),
        ({"client_id": "other"}, "refused"),
        ({"client_id": ["app"]}, "refused"),
        ({"client_id": None, "aud": "app"}, "refused"),
        ({"client_id": "app", "token_use": "id"}, "refused"),
    ],
)
def test_the_audience_is_looked_up_where_the_settings_say(
    token_claims: dict[str, Any], expected: str
) -> None:
    cognito = {"identity_audience": "app", "identity_audience_claim": "client_id"}
    told = said(**{"aud": None, **token_claims})
    assert judge(Replies(), told, **cognito) == expected
    assert judge(Replies(), told | {"aud": None}, identity_audience="app") == "refused"


def test_a_confirmed_address_may_be_the_text_true_only_where_the_settings_say_so() -> None:
    replies = Replies()
    replies.userinfo["email_verified"] = "true"
    assert judge(replies, said(), identity_claims="userinfo") == "refused"
    assert judge(replies, said(), identity_claims="userinfo-text") == SUBJECT
    replies.userinfo["email_verified"] = "false"
    assert judge(replies, said(), identity_claims="userinfo-text") == "refused"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"issuer": ISSUER + "/"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": 1},
        {"jwks_uri": ""},
        {"jwks_uri": "/jwks"},
        {"jwks_uri": "http://keys.example/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://"},
        {"jwks_uri": "https://[half"},
        {"jwks_uri": "https://elsewhere.example/none"},
    ],
)
def test_a_description_that_is_not_the_issuers_own_is_not_used(changes: dict[str, Any]) -> None:
    assert judge(Replies(**changes), said()) == "unavailable"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (LOCAL_KEYS, SUBJECT),
        (KEYS, SUBJECT),
        ("http://keys.example/jwks", "unavailable"),
        ("http://127.0.0.1.keys.example/jwks", "unavailable"),
        ("http://127.0.0.1@keys.example/jwks", "unavailable"),
        ("http://192.168.0.1/jwks", "unavailable"),
    ],
)
def test_only_an_issuer_on_this_machine_may_do_without_tls(keys: str, expected: str) -> None:
    replies = Replies(issuer=LOCAL_ISSUER, jwks_uri=keys)
    assert judge(replies, said(iss=LOCAL_ISSUER), url=LOCAL_ISSUER) == expected
    assert judge(Replies(jwks_uri=LOCAL_KEYS), said()) == "unavailable"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "[::1]", "10.0.0.8", "192.168.0.1", "169.254.169.254", "[fe80::1]"),
        *("100.64.0.1", "0.0.0.0", "[::ffff:10.0.0.8]", "[fd00::1]"),
        *("inside.example", "both.example", "nowhere.example"),
    ],
)
def test_only_a_private_issuer_may_name_private_addresses(address: str) -> None:
    keys, userinfo = f"https://{address}/jwks", f"https://{address}/me"
    replies = Replies(jwks_uri=keys)
    assert judge(replies, said()) == "unavailable"
    assert len(replies.seen) == 1
    replies = Replies(userinfo_endpoint=userinfo)
    assert judge(replies, said(), identity_claims="userinfo") == "unavailable"
    assert len(replies.seen) == 1
    private = "https://inside.example/realm"
    replies = Replies(issuer=private, jwks_uri=keys)
    assert judge(replies, said(iss=private), url=private) == SUBJECT


def test_a_name_is_resolved_as_a_connection_does() -> None:
    assert set(asyncio.run(resolve("127.0.0.1"))) == {"127.0.0.1"}
    assert set(asyncio.run(resolve("0x7f000001"))) == {"127.0.0.1"}
    assert asyncio.run(resolve("a" * 64 + ".example")) == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html></html>",
        b"[]",
        b'{"issuer":1,"issuer":2}',
        httpx2.Response(500),
        httpx2.Response(302),
    ],
    ids=count(),
)
def test_a_description_that_cannot_be_read_is_unavailable(document: Any) -> None:
    replies = Replies()
    replies.document = document
    assert judge(replies, said()) == "unavailable"


def test_userinfo_decides_where_the_settings_say_so() -> None:
    replies = Replies()
    told = said(email_verified=False)
    assert judge(replies, told, identity_claims="userinfo") == SUBJECT
    assert replies.seen[-1].headers["authorization"].startswith("Bearer ")
    assert "apikey" not in replies.seen[-1].headers


@pytest.mark.parametrize(
    ("userinfo", "expected"),
    [
        ({"sub": SUBJECT, "email_verified": False}, "refused"),
        ({"sub": SUBJECT, "email_verified": "true"}, "refused"),
        ({"sub": SUBJECT}, "refused"),
        ({"sub": "another", "email_verified": True}, "refused"),
        ({"email_verified": True}, "unavailable"),
        ({"sub": 7, "email_verified": True}, "unavailable"),
        (b"eyJhbGciOiJub25lIn0.e30.", "unavailable"),
        (httpx2.Response(401), "refused"),
        (_challenge(401, 'Bearer error="invalid_token"'), "refused"),
        (_challenge(403, 'Bearer realm="x", error="insufficient_scope"'), "refused"),
        (_challenge(403, "Bearer error=invalid_token"), "refused"),
        (_challenge(403, 'Bearer realm="x"'), "unavailable"),
        (_challenge(403, 'Bearer error="other"'), "unavailable"),
        (httpx2.Response(403), "unavailable"),
        (httpx2.Response(404), "unavailable"),
        (httpx2.Response(429), "unavailable"),
        (httpx2.Response(500), "unavailable"),
    ],
    ids=count(),
)
def test_userinfo_that_does_not_confirm_lets_nobody_in(userinfo: Any, expected: str) -> None:
    replies = Replies()
    replies.userinfo = userinfo
    assert judge(replies, said(), identity_claims="userinfo") == expected


@pytest.mark.parametrize("address", [None, "http://issuer.example/me", "ftp://issuer.example/me"])
def test_a_userinfo_address_that_cannot_be_asked_is_unavailable(address: Any) -> None:
    replies = Replies(userinfo_endpoint=address)
    assert judge(replies, said(), identity_claims="userinfo") == "unavailable"
    assert judge(Replies(userinfo_endpoint=address), said()) == SUBJECT

"""Bearer tokens: which are taken, and every known way to forge one."""

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from barograph.identity.key_set import ASK_AGAIN, KeySetCache
from barograph.identity.provider import IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import LEEWAY_SECONDS, Token, TokenVerifier
from support.clock import START, HandClock
from support.tokens import (
    AUDIENCE,
    ISSUER,
    SUBJECT,
    claims,
    confused_token,
    key,
    key_set,
    segment,
    token,
)

NOW = START // 1000


def verify(text: str, published: bytes | None = None, clock: HandClock | None = None) -> Token:
    async def fetch() -> bytes:
        return key_set() if published is None else published

    clock = clock or HandClock()
    verifier = TokenVerifier(
        KeySetCache(fetch, clock), issuer=ISSUER, audience=AUDIENCE, clock=clock
    )
    return asyncio.run(verifier.verify(text))


def refuse(text: str, published: bytes | None = None, clock: HandClock | None = None) -> None:
    with pytest.raises(IdentityRefused) as caught:
        verify(text, published, clock)
    assert not text or text[:40] not in str(caught.value)


def unsigned(header: dict[str, Any]) -> str:
    return (segment(header) + b"." + segment(claims()) + b".").decode()


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_a_good_token_says_whose_it_is(kind: str) -> None:
    signer = key(kind)
    taken = verify(token(by=signer), key_set(signer))
    assert (taken.subject, taken.expires_at) == (SUBJECT, (NOW + 3600) * 1000)
    assert taken.claims == claims()


def test_tokens_are_taken_under_every_name_of_their_type_algorithm_and_audience() -> None:
    for typ in (None, "JWT", "jwt", "at+jwt", "application/at+jwt"):
        assert verify(token(typ=typ)).subject == SUBJECT
    for audience in (AUDIENCE, [AUDIENCE], ["other", AUDIENCE]):
        assert verify(token(claims(aud=audience))).subject == SUBJECT
    signer = key("OKP")
    assert verify(token(by=signer, alg="EdDSA"), key_set(signer, alg="EdDSA")).subject == SUBJECT


def test_a_token_without_a_key_id_means_the_only_key() -> None:
    nameless = token(kid=None)
    assert verify(nameless).subject == SUBJECT
    assert verify(nameless, key_set(kid=None)).subject == SUBJECT
    refuse(nameless, key_set(key(), key("EC", 1)))


@pytest.mark.parametrize(
    "case",
    FORGED := {
        "none": unsigned({"alg": "none"}),
        "none with kid": unsigned({"alg": "none", "kid": "EC-0"}),
        "none over a signature": token(alg="none"),
        "none in capitals": token(alg="NONE"),
        "another algorithm's name": token(alg="RS256"),
        "another curve's name": token(alg="ES384"),
        "no algorithm": token(header={"kid": "EC-0"}),
        "a list of algorithms": token(alg=["ES256"]),
        "a number as algorithm": token(alg=256),
        "the public key in PEM as a secret": confused_token(key().as_pem()),
        "the public key in DER as a secret": confused_token(key().as_der()),
        "the key set as a secret": confused_token(key_set(), "HS512"),
        "another key under a known id": token(by=key("EC", 1), kid="EC-0"),
        "another kind of key under a known id": token(by=key("RSA"), kid="EC-0"),
    },
)
def test_token_signature_must_match_the_key_and_its_algorithm(case: str) -> None:
    refuse(FORGED[case])


@pytest.mark.parametrize("algorithm", ["HS256", "HS512", "RS256"])
@pytest.mark.parametrize(
    "secret",
    [
        key("RSA").as_pem(),
        key("RSA").as_pem().rstrip(b"\n"),
        key("RSA").as_der(),
        key_set(key("RSA")),
        json.dumps(key("RSA").as_dict()).encode(),
        json.dumps(key("RSA").as_dict(), separators=(",", ":"), sort_keys=True).encode(),
        str(key("RSA").as_dict()["n"]).encode(),
        b"",
    ],
    ids=["PEM", "PEM without its end", "DER", "key set", "JWK", "canonical JWK", "modulus", "none"],
)
def test_a_published_rsa_key_is_no_hmac_secret(secret: bytes, algorithm: str) -> None:
    refuse(confused_token(secret, algorithm, "RSA"), key_set(key("RSA")))
    refuse(confused_token(secret, algorithm, "RSA"), key_set(key("RSA"), alg=None, use=None))


@pytest.mark.parametrize(
    "kid",
    [
        *("unknown", "", " EC-0", "EC-0\n", "ec-0", "../../dev/null", "/proc/self/environ"),
        *("EC-0' OR '1'='1", "0; DROP TABLE keys", "http://evil.example/keys", "\x00", "k" * 201),
        *("k" * 3000, 0, True, ["EC-0"], {"kid": "EC-0"}),
    ],
)
def test_an_unknown_or_injected_key_id_is_refused(kid: Any) -> None:
    refuse(token(kid=kid), key_set(key(), key("EC", 1)))


@pytest.mark.parametrize(
    ("issued", "expected"),
    [
        (NOW + 20, IdentityUnavailable),
        (NOW, IdentityUnavailable),  # it may have been made after the keys were read
        (NOW - 1, IdentityRefused),
        (None, IdentityRefused),
        (str(NOW + 20), IdentityRefused),
        (True, IdentityRefused),
        (NOW + 20 + LEEWAY_SECONDS, IdentityUnavailable),
        (NOW + 20 + LEEWAY_SECONDS + 1, IdentityRefused),
    ],
)
async def test_an_old_key_set_refuses_no_new_token(issued: Any, expected: type[Exception]) -> None:
    clock, published = HandClock(), key_set()

    async def fetch() -> bytes:
        return published

    keys = KeySetCache(fetch, clock)
    verifier = TokenVerifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=clock)
    assert (await verifier.verify(token())).subject == SUBJECT
    published = key_set(key(), key("EC", 1))
    clock.pass_seconds(20)
    with pytest.raises(expected):
        await verifier.verify(token(claims(iat=issued), by=key("EC", 1)))
    clock.now = START + ASK_AGAIN
    good = claims(iat=NOW + ASK_AGAIN // 1000)
    assert (await verifier.verify(token(good, by=key("EC", 1)))).subject == SUBJECT


@pytest.mark.parametrize(
    "members",
    [
        {"jku": "https://evil.example/keys.json"},
        {"x5u": "https://evil.example/chain.pem"},
        {"jwk": key("EC", 1).as_dict()},
        {"x5c": ["TUlJQg=="]},
    ],
)
def test_addresses_and_keys_in_a_token_header_are_ignored(members: dict[str, Any]) -> None:
    refuse(token(by=key("EC", 1), kid="EC-0", **members))
    refuse(token(by=key("EC", 1), **members))
    assert verify(token(**members)).subject == SUBJECT


@pytest.mark.parametrize(
    "members",
    [
        *({"crit": ["exp"], "exp": 1}, {"crit": []}, {"crit": 5}, {"crit": [["exp"]]}),
        {"crit": ["jku"], "jku": "https://id.example/keys"},
        *({"b64": False, "crit": ["b64"]}, {"b64": True}, {"jku": 1}),
        *({"typ": "logout+jwt"}, {"typ": "dpop+jwt"}, {"typ": 1}),
    ],
)
def test_a_header_that_wants_something_else_is_refused(members: dict[str, Any]) -> None:
    refuse(token(**members))


@pytest.mark.parametrize(
    "changes",
    [
        *({"iss": None}, {"iss": ISSUER + "/"}, {"iss": "https://evil.example"}, {"iss": [ISSUER]}),
        *({"aud": None}, {"aud": "other"}, {"aud": []}, {"aud": [AUDIENCE, 1]}, {"aud": True}),
        *({"aud": {AUDIENCE: 1}}, {"aud": AUDIENCE + " other"}),
        *({"exp": None}, {"exp": str(NOW + 60)}, {"exp": True}, {"exp": NOW + 60.5}, {"exp": []}),
        *({"nbf": str(NOW)}, {"nbf": False}, {"nbf": NOW + 0.5}, {"iat": str(NOW)}, {"iat": {}}),
        *({"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": ["x"]}, {"sub": "x" * 201}),
        *({"sub": "a\x00b"}, {"sub": "a\nb"}),
    ],
)
def test_claims_of_another_type_or_value_are_refused(changes: dict[str, Any]) -> None:
    refuse(token(claims(**changes)))


def test_claims_at_their_bounds_are_taken() -> None:
    assert verify(token(claims(sub="x" * 200))).subject == "x" * 200
    assert verify(token(claims(exp=NOW + 60.0))).expires_at == (NOW + 60) * 1000
    assert verify(token(claims(iat=None))).subject == SUBJECT


def test_time_is_judged_with_a_leeway_of_half_a_minute() -> None:
    clock = HandClock()
    expiring = token(claims(exp=NOW))
    early = token(claims(nbf=NOW + 3600))
    issued_later = token(claims(iat=NOW + 3600))
    clock.pass_seconds(LEEWAY_SECONDS - 1)
    assert verify(expiring, clock=clock).subject == SUBJECT
    clock.pass_seconds(1)
    refuse(expiring, clock=clock)
    clock = HandClock(START + (3600 - LEEWAY_SECONDS) * 1000 - 1)
    refuse(early, clock=clock)
    refuse(issued_later, clock=clock)
    clock.pass_seconds(0.001)
    assert verify(early, clock=clock).subject == SUBJECT
    assert verify(issued_later, clock=clock).subject == SUBJECT


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "a.b.c.d.e", token() + ".x", "é.b.c"),
        *(token()[:-1], token() + "=", token() + "A", token().replace(".", "=.", 1)),
        *(" " + token(), token() + "\n", token().rpartition(".")[0] + ".", "x" * 1_000_000),
        *(token(b"[]"), token(b"null"), token(b"not JSON"), token(b"\xff\xfe")),
        token(header=b"[]"),
        token(header=b'{"alg":"ES256","alg":"none","kid":"EC-0"}'),
        token(header=b'{"alg":"ES256","kid":"x","kid":"EC-0"}'),
        token(b'{"sub":"x","sub":"y"}'),
        token(b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}"),
        token(b'{"exp":' + b"9" * 5000 + b"}"),
    ],
    ids=count(),  # the tokens themselves are others each time
)
def test_what_is_not_one_well_formed_token_is_refused(text: str) -> None:
    refuse(text)


def test_a_token_has_one_spelling() -> None:
    """The last character of a signature holds bits that mean nothing; only zeros are taken."""
    good = token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet[alphabet.index(good[-1]) + 1]
    assert verify(good).subject == SUBJECT
    refuse(good[:-1] + other)
    refuse(good.replace("-", "+").replace("_", "/") if {"-", "_"} & set(good) else good + "+")


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_token_with_a_changed_byte_is_refused(kind: str) -> None:
    good = token(by=key(kind))
    published = key_set(key(kind))
    for place in range(0, len(good), 17):
        if good[place] != ".":
            changed = "A" if good[place] != "A" else "B"
            refuse(good[:place] + changed + good[place + 1 :], published)

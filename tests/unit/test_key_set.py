"""The identity provider's keys: which are used, and how long they are kept."""

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from barograph.identity.key_set import (
    ASK_AGAIN,
    FRESH,
    MAX_KEY_SET_BYTES,
    MAX_KEYS,
    TRY_AGAIN,
    USABLE,
    KeySetCache,
    read_key_set,
)
from barograph.identity.provider import IdentityRefused, IdentityUnavailable
from support.clock import HandClock
from support.tokens import SigningKey, key, key_set

OLD, NEW = key("EC", 0), key("EC", 1)
OLD_ID, NEW_ID = "EC-0", "EC-1"
DOWN = IdentityUnavailable("down")


class Publisher:
    """Publishes keys, counts who asks, and can be broken or stopped."""

    def __init__(self, *keys: SigningKey) -> None:
        self.body = key_set(*keys)
        self.asked = 0
        self.error: Exception | None = None
        self.was_asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self) -> bytes:
        self.asked += 1
        self.was_asked.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.body


class Kept:
    """A cache on a clock held by hand, over a publisher."""

    def __init__(self, *keys: SigningKey) -> None:
        self.clock = HandClock()
        self.publisher = Publisher(*(keys or (OLD,)))
        self.cache = KeySetCache(self.publisher, self.clock)

    def find(self, kid: str | None = OLD_ID, made_by: int | None = None) -> str | None:
        async def work() -> str | None:
            try:
                return (await self.cache.find(kid, made_by)).kid
            finally:
                beside = asyncio.all_tasks() - {asyncio.current_task()}
                await asyncio.gather(*beside)

        return asyncio.run(work())

    def outcome(self, kid: str = OLD_ID, made_by: int | None = None) -> str:
        try:
            self.find(kid, made_by)
        except IdentityRefused:
            return "refused"
        except IdentityUnavailable:
            return "unavailable"
        return "found"

    def pass_time(self, milliseconds: int) -> None:
        self.clock.now += milliseconds

    def after(self, milliseconds: int, kid: str = OLD_ID) -> tuple[str, int]:
        """The outcome some time later, and how often the publisher was asked by then."""
        self.pass_time(milliseconds)
        return self.outcome(kid), self.publisher.asked


def test_the_set_is_asked_for_once_while_it_is_fresh() -> None:
    kept = Kept()
    assert kept.after(0) == kept.after(FRESH - 1) == ("found", 1)
    assert kept.after(1) == ("found", 2)


@pytest.mark.outcome(
    "The identity provider adds a key",
    "It works at once, and the old key until the next refresh, 10 minutes or more later.",
)
def test_new_key_works_at_once_and_the_old_one_while_it_is_published() -> None:
    kept = Kept()
    kept.find()
    kept.pass_time(ASK_AGAIN)
    kept.publisher.body = key_set(OLD, NEW)
    assert (kept.find(NEW_ID), kept.find(OLD_ID)) == (NEW_ID, OLD_ID)
    assert kept.publisher.asked == 2
    kept.publisher.body = key_set(NEW)
    assert kept.after(FRESH - 1) == ("found", 2)
    assert kept.after(1) == ("found", 3)
    assert kept.after(0) == ("refused", 3)
    assert kept.after(0, NEW_ID) == ("found", 3)


def test_unknown_keys_refetch_the_key_set_at_most_once_in_30_seconds() -> None:
    kept = Kept()
    assert kept.after(0, "invented") == ("refused", 1)
    outcomes = [kept.after(ASK_AGAIN // 50, f"invented-{number}") for number in range(100)]
    assert {outcome for outcome, _ in outcomes} == {"refused"}
    assert kept.after(0) == ("found", 1 + 2)


@pytest.mark.outcome(
    "Someone sends an invented key id just before the identity provider adds a key",
    "Tokens signed with the new key get 503, not 401, for up to 30 seconds.",
)
def test_new_key_after_an_invented_key_id_is_unavailable_but_not_refused() -> None:
    kept = Kept()
    kept.find()
    kept.pass_time(ASK_AGAIN)
    assert kept.outcome("invented") == "refused"
    read_at = kept.clock()
    kept.publisher.body = key_set(OLD, NEW)
    kept.pass_time(ASK_AGAIN - 1)
    assert kept.outcome(NEW_ID, read_at + 1) == "unavailable"
    assert kept.outcome(NEW_ID, read_at) == "refused"
    assert kept.publisher.asked == 2
    kept.pass_time(1)
    assert kept.outcome(NEW_ID, read_at + 1) == "found"
    assert kept.outcome("invented", kept.clock()) == "refused"


@pytest.mark.outcome(
    "The identity provider's keys are unreadable",
    "Known keys stay valid for one hour. After that, tokens get 503.",
)
def test_known_keys_stay_valid_for_an_hour_while_the_provider_is_down() -> None:
    kept = Kept()
    kept.find()
    kept.publisher.error = DOWN
    assert kept.after(FRESH) == kept.after(0) == kept.after(ASK_AGAIN - 1) == ("found", 2)
    assert kept.after(1) == ("found", 3)
    assert kept.after(USABLE - FRESH - ASK_AGAIN - 1)[0] == "found"
    assert kept.after(1 + TRY_AGAIN)[0] == "unavailable"
    kept.publisher.error = None
    assert kept.after(TRY_AGAIN)[0] == "found"


def test_without_any_keys_a_dead_provider_is_asked_once_in_a_second() -> None:
    kept = Kept()
    kept.publisher.error = DOWN
    assert [kept.after(0) for _ in range(5)] == [("unavailable", 1)] * 5
    kept.publisher.error = None
    assert kept.after(TRY_AGAIN) == ("found", 2)


def test_unknown_key_is_unavailable_while_the_provider_is_down() -> None:
    kept = Kept()
    kept.find()
    kept.pass_time(ASK_AGAIN)
    kept.publisher.error = DOWN
    assert [kept.after(0, NEW_ID) for _ in range(3)] == [("unavailable", 2)] * 3
    assert kept.outcome(OLD_ID) == "found"


async def test_many_at_once_ask_once_and_one_who_gives_up_does_not_stop_the_others() -> None:
    kept = Kept()
    kept.publisher.go.clear()
    impatient, *waiting = (asyncio.create_task(kept.cache.find(OLD_ID)) for _ in range(21))
    await kept.publisher.was_asked.wait()
    impatient.cancel()
    await asyncio.wait([impatient])
    kept.publisher.go.set()

    assert [key.kid for key in await asyncio.gather(*waiting)] == [OLD_ID] * 20
    assert kept.publisher.asked == 1


@pytest.mark.outcome(
    "The identity provider hangs while its key set is refreshed",
    "Tokens with known keys are verified at once; only unknown keys wait.",
)
async def test_known_keys_are_verified_at_once_while_the_provider_hangs() -> None:
    kept = Kept()
    await kept.cache.find(OLD_ID)
    kept.pass_time(FRESH)
    kept.publisher.body = key_set(OLD, NEW)
    kept.publisher.go.clear()
    kept.publisher.was_asked.clear()
    known = [await kept.cache.find(OLD_ID) for _ in range(3)]
    await kept.publisher.was_asked.wait()
    known += [await kept.cache.find(OLD_ID) for _ in range(3)]
    waiting = asyncio.create_task(kept.cache.find(NEW_ID))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    kept.publisher.go.set()

    assert [key.kid for key in (*known, await waiting)] == [OLD_ID] * 6 + [NEW_ID]
    assert kept.publisher.asked == 2


def test_an_unexpected_error_of_a_renewal_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.find()
    kept.publisher.error = RuntimeError("a mistake")
    assert (kept.after(FRESH), kept.after(0, NEW_ID)) == (("found", 2), ("unavailable", 2))
    assert caplog.messages == ["key set not renewed"]


def test_a_clock_that_is_set_back_makes_the_set_old_not_eternal() -> None:
    kept = Kept()
    kept.find()
    assert kept.after(-3_600_000) == ("found", 2)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html></html>", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}'),
        *(b'{"keys":[null,1,"x"]}', b'{"keys":[],"keys":[]}'),
        b'{"keys":' + b"[" * 5000 + b"]" * 5000 + b"}",
        json.dumps({"keys": json.loads(key_set())["keys"] * (MAX_KEYS + 1)}).encode(),
        key_set() + b" " * MAX_KEY_SET_BYTES,
        key_set(OLD, NEW, kid="same"),
    ],
    ids=count(),  # the keys themselves are others each time
)
def test_what_is_no_key_set_counts_as_a_failure(body: bytes) -> None:
    kept = Kept()
    kept.find()
    kept.publisher.body = body
    assert kept.after(FRESH)[0] == "found"
    assert kept.after(USABLE)[0] == "unavailable"


@pytest.mark.parametrize(
    "members",
    [
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlYw"},
        *({"use": "enc"}, {"use": "other"}, {"key_ops": ["sign"]}, {"key_ops": "verify"}),
        *({"alg": "ES384"}, {"alg": "HS256"}, {"alg": ["ES256"]}, {"crv": "P-384"}),
        *({"crv": "secp256k1"}, {"crv": ["P-256"]}, {"kty": "RSA"}, {"kty": "quantum"}),
        *({"kty": 1}, {"x": "AAAA"}, {"x": 1}, {"x": "ä"}, {"y": None}, {"d": "c2VjcmV0"}),
        *({"kid": 1}, {"kid": ""}),
        {"kid": "k" * 201},
    ],
)
def test_a_key_that_is_not_for_us_is_left_out_and_others_are_used(members: dict[str, Any]) -> None:
    odd = json.loads(key_set(NEW, **members))["keys"]
    good = json.loads(key_set(OLD))["keys"]
    read = read_key_set(json.dumps({"keys": odd + good}).encode())
    assert [each.kid for each in read.keys] == [OLD_ID]


def test_rsa_keys_are_neither_weak_nor_endless() -> None:
    rsa = json.loads(key_set(key("RSA")))["keys"][0]
    good = json.loads(key_set(OLD))["keys"]
    weak = {**rsa, "n": rsa["n"][:171]}
    padded = {**rsa, "n": "A" * 171 + rsa["n"][:171]}
    endless = {**rsa, "n": rsa["n"] * 5}
    for odd in (weak, padded, endless):
        read = read_key_set(json.dumps({"keys": [odd, *good]}).encode())
        assert [each.kid for each in read.keys] == [OLD_ID]
    assert len(read_key_set(json.dumps({"keys": [rsa, *good]}).encode()).keys) == 2

"""Which limit a request is charged to, and how it is refused."""

import asyncio
from collections.abc import Iterable
from ipaddress import ip_network

import pytest

from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    PERSONAL,
    InvalidApiKey,
    RateLimiter,
    TooManyRequests,
    Usage,
)
from barograph.limits.stores import MemoryStore
from support.clock import HandClock

KEYS = {"good": "id-1", "also good": "id-2"}


class Limited:
    """A limiter with two valid keys that remembers the keys it looked up."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.looked_up: list[str] = []
        self.limiter = RateLimiter(
            MemoryStore(self.clock), self._verify, [ip_network("10.0.0.0/8")]
        )

    async def _verify(self, text: str) -> str | None:
        self.looked_up.append(text)
        return KEYS.get(text)

    def request(self, *keys: str, peer: str | None = "203.0.113.7", forwarded: str = "") -> Usage:
        headers = [(b"accept", b"*/*"), *((b"x-api-key", key.encode("latin-1")) for key in keys)]
        headers += [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
        client = None if peer is None else (peer, 40_000)
        return asyncio.run(
            self.limiter.admit({"type": "http", "headers": headers, "client": client})
        )


def spend(limited: Limited, times: int, *keys: str) -> None:
    for _ in range(times):
        limited.request(*keys)


@pytest.fixture
def limited() -> Limited:
    return Limited()


@pytest.mark.contract("auth.signals-none")
def test_request_without_a_key_spends_the_anonymous_limit(limited: Limited) -> None:
    usage = limited.request()
    assert (usage.limit, usage.remaining) == (ANONYMOUS, 119)
    assert limited.looked_up == []


@pytest.mark.contract("auth.key-raises-allowance")
def test_request_with_a_key_spends_the_keys_limit_wherever_it_comes_from(limited: Limited) -> None:
    assert limited.request("good").limit == PERSONAL
    assert limited.request("good", peer="198.51.100.1").remaining == 998
    assert limited.request("also good").remaining == 999
    assert limited.request().remaining == 119


@pytest.mark.contract("limits.signals.anonymous")
def test_121st_anonymous_request_gets_429(limited: Limited) -> None:
    spend(limited, 120)
    with pytest.raises(TooManyRequests) as refused:
        limited.request()
    assert refused.value.usage == Usage(ANONYMOUS, False, 0, ANONYMOUS.window)
    assert limited.request(peer="198.51.100.1").accepted


@pytest.mark.contract("limits.signals.personal-key")
def test_1001st_request_with_a_key_gets_429(limited: Limited) -> None:
    spend(limited, 1_000, "good")
    with pytest.raises(TooManyRequests) as refused:
        limited.request("good")
    assert refused.value.usage.limit == PERSONAL


@pytest.mark.parametrize(
    "keys", [("bad",), ("",), ("good", "good"), ("good", "bad"), ("x" * 5_000,), ("g\xf6\xf6d",)]
)
def test_key_that_is_not_valid_gets_401_and_never_the_anonymous_limit(
    limited: Limited, keys: Iterable[str]
) -> None:
    with pytest.raises(InvalidApiKey) as refused:
        limited.request(*keys)
    assert (refused.value.usage.limit, refused.value.usage.remaining) == (BAD_KEYS, 59)
    assert limited.request().remaining == 119


@pytest.mark.parametrize("keys", [("",), ("good", "good"), ("x" * 5_000,)])
def test_what_cannot_be_a_key_is_not_looked_up(limited: Limited, keys: Iterable[str]) -> None:
    with pytest.raises(InvalidApiKey):
        limited.request(*keys)
    assert limited.looked_up == []


def test_bad_key_gets_401_even_when_the_anonymous_limit_is_spent(limited: Limited) -> None:
    spend(limited, 120)
    with pytest.raises(InvalidApiKey):
        limited.request("bad")


def test_61st_bad_key_gets_429_while_good_ones_and_others_are_served(limited: Limited) -> None:
    for _ in range(60):
        with pytest.raises(InvalidApiKey):
            limited.request("bad")
    with pytest.raises(TooManyRequests) as refused:
        limited.request("bad")
    assert refused.value.usage.limit == BAD_KEYS
    assert limited.request("good").remaining == 999
    assert limited.request().remaining == 119
    with pytest.raises(InvalidApiKey):
        limited.request("bad", peer="198.51.100.1")


def test_caller_behind_a_trusted_proxy_is_told_apart(limited: Limited) -> None:
    assert limited.request(peer="10.0.0.1", forwarded="203.0.113.7").remaining == 119
    assert limited.request(peer="10.0.0.1", forwarded="198.51.100.1").remaining == 119
    assert limited.request(peer="10.0.0.1", forwarded="192.0.2.9, 203.0.113.7").remaining == 118
    assert limited.request(peer="203.0.113.7", forwarded="192.0.2.9").remaining == 117


def test_callers_without_an_address_share_one_limit(limited: Limited) -> None:
    assert limited.request(peer=None).remaining == 119
    assert limited.request(peer=None).remaining == 118

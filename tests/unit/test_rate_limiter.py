"""Which limit a request is charged to, and how it is refused."""

import asyncio
from collections.abc import Iterable
from ipaddress import ip_network

import pytest

from barograph.limits.memory_store import MemoryStore
from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    PERSONAL,
    InvalidApiKey,
    RateLimiter,
    TooManyRequests,
    Usage,
)
from support.clock import HandClock

KEYS = {"good": "id-1", "also good": "id-2"}


class Door:
    """A limiter with two valid keys, and a memory of which texts were looked up."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.looked_up: list[str] = []
        self.limiter = RateLimiter(
            MemoryStore(self.clock), self._verify, [ip_network("10.0.0.0/8")]
        )

    async def _verify(self, text: str) -> str | None:
        self.looked_up.append(text)
        return KEYS.get(text)

    def knock(self, *keys: str, peer: str | None = "203.0.113.7", forwarded: str = "") -> Usage:
        headers = [(b"accept", b"*/*"), *((b"x-api-key", key.encode("latin-1")) for key in keys)]
        headers += [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
        client = None if peer is None else (peer, 40_000)
        return asyncio.run(
            self.limiter.admit({"type": "http", "headers": headers, "client": client})
        )


def spend(door: Door, times: int, *keys: str) -> None:
    for _ in range(times):
        door.knock(*keys)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.contract("auth.signals-none")
def test_request_without_a_key_spends_the_anonymous_allowance(door: Door) -> None:
    usage = door.knock()
    assert (usage.limit, usage.remaining) == (ANONYMOUS, 119)
    assert door.looked_up == []


@pytest.mark.contract("auth.key-raises-limit")
def test_request_with_a_key_spends_the_keys_allowance_wherever_it_comes_from(door: Door) -> None:
    assert door.knock("good").limit == PERSONAL
    assert door.knock("good", peer="198.51.100.1").remaining == 998
    assert door.knock("also good").remaining == 999
    assert door.knock().remaining == 119


@pytest.mark.contract("limits.signals.anonymous")
def test_121st_anonymous_request_gets_429(door: Door) -> None:
    spend(door, 120)
    with pytest.raises(TooManyRequests) as refused:
        door.knock()
    assert refused.value.usage == Usage(ANONYMOUS, False, 0, ANONYMOUS.window)
    assert door.knock(peer="198.51.100.1").accepted


@pytest.mark.contract("limits.signals.personal-key")
def test_1001st_request_with_a_key_gets_429(door: Door) -> None:
    spend(door, 1_000, "good")
    with pytest.raises(TooManyRequests) as refused:
        door.knock("good")
    assert refused.value.usage.limit == PERSONAL


@pytest.mark.parametrize(
    "keys", [("bad",), ("",), ("good", "good"), ("good", "bad"), ("x" * 5_000,), ("g\xf6\xf6d",)]
)
def test_key_that_is_not_valid_gets_401_and_never_the_anonymous_allowance(
    door: Door, keys: Iterable[str]
) -> None:
    with pytest.raises(InvalidApiKey) as refused:
        door.knock(*keys)
    assert (refused.value.usage.limit, refused.value.usage.remaining) == (BAD_KEYS, 59)
    assert door.knock().remaining == 119


@pytest.mark.parametrize("keys", [("",), ("good", "good"), ("x" * 5_000,)])
def test_what_cannot_be_a_key_is_not_looked_up(door: Door, keys: Iterable[str]) -> None:
    with pytest.raises(InvalidApiKey):
        door.knock(*keys)
    assert door.looked_up == []


def test_bad_key_gets_401_even_when_the_anonymous_allowance_is_spent(door: Door) -> None:
    spend(door, 120)
    with pytest.raises(InvalidApiKey):
        door.knock("bad")


def test_61st_bad_key_gets_429_while_good_ones_and_others_are_served(door: Door) -> None:
    for _ in range(60):
        with pytest.raises(InvalidApiKey):
            door.knock("bad")
    with pytest.raises(TooManyRequests) as refused:
        door.knock("bad")
    assert refused.value.usage.limit == BAD_KEYS
    assert door.knock("good").remaining == 999
    assert door.knock().remaining == 119
    with pytest.raises(InvalidApiKey):
        door.knock("bad", peer="198.51.100.1")


def test_caller_behind_a_trusted_proxy_is_told_apart(door: Door) -> None:
    assert door.knock(peer="10.0.0.1", forwarded="203.0.113.7").remaining == 119
    assert door.knock(peer="10.0.0.1", forwarded="198.51.100.1").remaining == 119
    assert door.knock(peer="10.0.0.1", forwarded="192.0.2.9, 203.0.113.7").remaining == 118
    assert door.knock(peer="203.0.113.7", forwarded="192.0.2.9").remaining == 117


def test_callers_without_an_address_share_one_allowance(door: Door) -> None:
    assert door.knock(peer=None).remaining == 119
    assert door.knock(peer=None).remaining == 118

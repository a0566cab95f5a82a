"""Which limit a request is charged to, and how it is refused."""

import asyncio
from collections.abc import Iterable

import pytest

from barograph.limits.rate_limits import (
    InvalidApiKey,
    RateLimiter,
    Usage,
)
from barograph.limits.stores import MemoryStore
from support.clock import HandClock


class Limited:
    """A limiter without a valid key that remembers the keys it looked up."""

    def __init__(self) -> None:
        self.looked_up: list[str] = []
        self.limiter = RateLimiter(MemoryStore(HandClock()), self._verify, ())

    async def _verify(self, text: str) -> str | None:
        self.looked_up.append(text)
        return None

    def request(self, *keys: str, peer: str | None = "203.0.113.7") -> Usage:
        headers = [(b"accept", b"*/*"), *((b"x-api-key", key.encode("latin-1")) for key in keys)]
        client = None if peer is None else (peer, 40_000)
        return asyncio.run(
            self.limiter.admit({"type": "http", "headers": headers, "client": client})
        )


@pytest.fixture
def limited() -> Limited:
    return Limited()


@pytest.mark.parametrize("keys", [("",), ("good", "good"), ("x" * 5_000,)])
def test_what_cannot_be_a_key_is_not_looked_up(limited: Limited, keys: Iterable[str]) -> None:
    with pytest.raises(InvalidApiKey):
        limited.request(*keys)
    assert limited.looked_up == []


def test_callers_without_an_address_share_one_limit(limited: Limited) -> None:
    assert limited.request(peer=None).remaining == 119
    assert limited.request(peer=None).remaining == 118

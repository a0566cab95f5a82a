"""Which limit a request is charged to, how it is refused, and what an answer says about it."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    PERSONAL,
    REGISTRATIONS,
    InvalidApiKey,
    RateLimit,
    RateLimiter,
    TooManyRequests,
    Usage,
    rate_limit_fields,
)
from barograph.limits.stores import MemoryStore
from support.clock import START, HandClock


@given(st.integers(START, START + HOUR), st.integers(1, HOUR))
def test_retry_after_is_never_too_early_or_zero(now: int, resets_in: int) -> None:
    fields = dict(rate_limit_fields(Usage(ANONYMOUS, False, 0, resets_in), now))
    assert int(fields[b"retry-after"]) >= 1
    assert 0 <= int(fields[b"retry-after"]) * 1000 - resets_in < 1000
    assert 0 <= int(fields[b"x-ratelimit-reset"]) * 1000 - (now + resets_in) < 1000


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (PERSONAL, "1,000 requests with this key are allowed in any hour"),
        (BAD_KEYS, "60 requests with an invalid key are allowed in any hour"),
        (REGISTRATIONS, "10 registrations from one address are allowed in any hour"),
        (MAILBOX, "3 e-mails to one mailbox are allowed in any 24 hours"),
        (RateLimit("other", 5, 90_000), "5 requests (other) are allowed in any 90 seconds"),
    ],
)
def test_every_limit_has_its_words(limit: RateLimit, words: str) -> None:
    message = TooManyRequests(Usage(limit, False, 0, 1)).message
    assert message.startswith(f"too many requests: {words}; try again in 1 second")


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

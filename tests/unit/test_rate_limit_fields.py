"""What an answer says about the limit."""

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
    TooManyRequests,
    Usage,
    rate_limit_fields,
)
from support.clock import START


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


def test_invalid_key_is_told_how_to_present_one() -> None:
    error = InvalidApiKey(Usage(BAD_KEYS, True, 29, HOUR))
    fields = dict(error.fields(START))
    assert error.status == 401
    assert "X-API-Key" in error.message
    assert "POST /api/v1/keys" in error.message
    assert b"X-API-Key" in fields[b"www-authenticate"]
    assert fields[b"ratelimit-policy"] == b'"bad-key";q=60;w=3600'
    assert b"retry-after" not in fields

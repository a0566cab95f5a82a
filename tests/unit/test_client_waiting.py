"""When the client comes again."""

import pytest

from barograph.kit.timestamps import http_date
from barograph_client.reads import seconds_asked_for
from support.clock import START


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("0", 0.0),
        ("17", 17.0),
        (" 17 ", 17.0),
        (http_date(START + 90_000), 90.0),
        (http_date(START - 90_000), 0.0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 40, None),
        ("Fri, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_its_forms(field: str, seconds: float | None) -> None:
    assert seconds_asked_for(503, {"retry-after": field}, START) == seconds


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ('"anon";r=0;t=120', 120.0),
        ('"anon"; r=0; t=7', 7.0),
        ('"anon";r=3;t=120', None),
        ('"minute";r=0;t=20, "hour";r=0;t=900, "day";r=5;t=4000', 900.0),
        ('"anon";r=0', None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_a_429_without_retry_after_uses_the_allowance(field: str, seconds: float | None) -> None:
    fields = {"ratelimit": field}
    assert seconds_asked_for(429, fields, START) == seconds
    assert seconds_asked_for(503, fields, START) is None  # it says nothing about other failures
    assert seconds_asked_for(429, {**fields, "retry-after": "5"}, START) == 5.0

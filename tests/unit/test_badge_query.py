"""`sinceDate` and `style`, in all their right and wrong forms."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from barograph.badges.documents import parse_since, since_from_query

JAN_31 = 1_738_281_600_000
"""2025-01-31T00:00Z"""

WRONG = [
    *("", " ", "2025", "2025-01", "2025-1-31", "20250131", "2025-01-31 ", " 2025-01-31"),
    *("2025-01-31\n", "2025-02-29", "2025-00-10", "2025-13-01", "2025-01-32", "0000-01-01"),
    *("-2025-01-31", "+2025-01-31", "12025-01-31", "2025/01/31", "31.01.2025", "2025-W05-5"),
    *("2025-031", "2025-01-31T", "2025-01-31T00", "2025-01-31T24:00", "2025-01-31T12:60"),
    *("2025-01-31T12:00:60", "2025-01-31T12:00:00.", "2025-01-31T12:00:00,5"),
    *("2025-01-31T12:00:00z", "2025-01-31t12:00:00Z", "2025-01-31 12:00:00", "2025-01-31Z"),
    *("2025-01-31+01:00", "2025-01-31T12:00+0100", "2025-01-31T12:00+24:00"),
    *("2025-01-31T12:00+01:60", "2025-01-31T12:00ZZ"),
    "٢٠٢٥-٠١-٣١",  # noqa: RUF001
    "２０２５-01-31",  # noqa: RUF001
    "1738281600",
    "1738281600000",
    "NaN",
    "null",
    "yesterday",
    "<script>alert(1)</script>",
    "2025-01-31<b>",
    "0" * 10_000,
]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2025-01-31", JAN_31),
        ("2025-01-31T00:00", JAN_31),
        ("2025-01-31T00:00Z", JAN_31),
        ("2025-01-31T00:00:00", JAN_31),
        ("2025-01-31T00:00:00Z", JAN_31),
        ("2025-01-31T00:00:00.5Z", JAN_31 + 500),
        ("2025-01-31T00:00:00.123456789Z", JAN_31 + 123),
        ("2025-01-31T02:00:00+02:00", JAN_31),
        ("2025-01-31T02:00:00 02:00", JAN_31),
        ("2025-01-30T19:30:00-04:30", JAN_31),
        ("1970-01-01", 0),
        ("1969-12-31", -86_400_000),
        ("2024-02-29", JAN_31 - 337 * 86_400_000),
    ],
)
def test_an_iso_date_or_timestamp_is_read(text: str, at: int) -> None:
    assert parse_since(text) == at


@pytest.mark.parametrize("text", WRONG)
def test_anything_else_cannot_be_read(text: str) -> None:
    assert parse_since(text) is None


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00+23:59", "9999-12-31T23:59:59.999-23:59", "0001-01-01", "9999-12-31"]
)
def test_the_ends_of_the_calendar_are_dates_too(text: str) -> None:
    assert parse_since(text) is not None


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    at = parse_since(text)

    assert at is None or text[:4].isdigit()


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_python_writes_is_read_to_the_millisecond(moment: datetime) -> None:
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)

    assert parse_since(moment.isoformat()) == since_epoch // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("query", "given", "at"),
    [
        (b"", False, None),
        (b"style=flat", False, None),
        (b"sincedate=2025-01-31", False, None),
        (b"sinceDate=2025-01-31", True, JAN_31),
        (b"x=1&sinceDate=2025-01-31&style=flat", True, JAN_31),
        (b"sinceDate=2025%2D01-31", True, JAN_31),
        (b"sinceDate=2025-01-31T02:00:00%2B02:00", True, JAN_31),
        (b"sinceDate=2025-01-31T02:00:00+02:00", True, JAN_31),
        (b"sinceDate=", True, None),
        (b"sinceDate", True, None),
        (b"sinceDate=2025-01-31&sinceDate=2025-01-31", True, None),
        (b"sinceDate=2025-01-31&sinceDate=", True, None),
        (b"sinceDate=2025-01-31%0A", True, None),
        (b"sinceDate=%00", True, None),
        (b"sinceDate=%ff%fe", True, None),
        (b"sinceDate=\xff", True, None),
        (b"sinceDate=2025-01-31+", True, None),
    ],
)
def test_since_date_is_read_from_the_raw_query(query: bytes, given: bool, at: int | None) -> None:
    assert ("sinceDate" in QueryParams(query)) is given
    assert since_from_query(QueryParams(query)) == at

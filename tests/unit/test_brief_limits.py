"""`limit`: any integer is brought into 1 to 50, anything else is the default, nothing is slow."""

from urllib.parse import quote_from_bytes

from hypothesis import example, given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from barograph.briefs.documents import limit_from_query

DEFAULT = 15


def test_a_long_row_of_zeros_that_is_no_number_is_not_tried_in_all_ways() -> None:
    # Trying all ways would take minutes.
    assert limit_from_query(QueryParams(b"limit=" + b"0" * 200_000 + b"x")) == DEFAULT


@given(st.binary(max_size=60))
@example(b"\xff\xfe")
@example(b"%")
def test_whatever_is_sent_there_is_a_limit(value: bytes) -> None:
    for query in (value, b"limit=" + value, b"limit=" + quote_from_bytes(value).encode()):
        assert 1 <= limit_from_query(QueryParams(query)) <= 50


@given(st.integers())
def test_every_integer_is_itself_or_the_nearest_that_is_allowed(number: int) -> None:
    assert limit_from_query(QueryParams(b"limit=%d" % number)) == min(max(number, 1), 50)

"""`limit`: any integer is brought into 1 to 50, anything else is the default, nothing is slow."""

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from barograph.briefs.documents import limit_from_query

DEFAULT = 15


@pytest.mark.contract("briefs.limit.default", "limits.briefs")
@pytest.mark.parametrize("query", [b"", b"&", b"other=3", b"Limit=3", b"limits=3"])
def test_without_limit_there_are_15(query: bytes) -> None:
    assert limit_from_query(QueryParams(query)) == DEFAULT


@pytest.mark.contract("briefs.limit.clamped", "limits.briefs")
@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (b"1", 1),
        (b"50", 50),
        (b"7", 7),
        (b"0", 1),
        (b"51", 50),
        (b"-3", 1),
        (b"-0", 1),
        (b"-99", 1),
        (b"000", 1),
        (b"0007", 7),
        (b"00050", 50),
        (b"00051", 50),
        (b"100", 50),
        (b"%35", 5),
        (b"%2B5", 5),
        (b"%2D5", 1),
        (b"9" * 5_000, 50),
        (b"1" + b"0" * 5_000, 50),
        (b"-" + b"9" * 5_000, 1),
        (b"0" * 5_000, 1),
        (b"0" * 5_000 + b"7", 7),
    ],
)
def test_any_integer_is_clamped(value: bytes, limit: int) -> None:
    assert limit_from_query(QueryParams(b"limit=" + value)) == limit


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"abc",
        b"1.5",
        b"5.0",
        b"1e1",
        b"0x10",
        b"5_0",
        b"+5",  # a plus in a query is a space
        b"%205",
        b"5%20",
        b"5%0A",
        b"5;limit=6",
        b"--5",
        b"-",
        b"%ff",
        b"%",
        b"%zz",
        b"5%00",
        "\u0665".encode(),
        b"%D9%A5",
        "\uff15".encode(),
        b"%C2%B2",
        b"\xb2",
        b"null",
        b"NaN",
        b"inf",
    ],
)
def test_what_is_not_an_integer_means_the_default(value: bytes) -> None:
    assert limit_from_query(QueryParams(b"limit=" + value)) == DEFAULT


@pytest.mark.parametrize("query", [b"limit=5&limit=5", b"limit=5&limit=", b"limit=5&%6Cimit=6"])
def test_a_repeated_limit_means_the_default(query: bytes) -> None:
    assert limit_from_query(QueryParams(query)) == DEFAULT


def test_other_parameters_and_an_encoded_name_do_not_disturb() -> None:
    assert limit_from_query(QueryParams(b"a=1&limit=3&b=%ff")) == 3
    assert limit_from_query(QueryParams(b"%6Cimit=3")) == 3


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

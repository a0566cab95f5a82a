"""Which list of briefs an address asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from barograph.briefs.records import CATEGORIES
from barograph.site.briefs import Asked, asked_from_query


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (b"", Asked()),
        (b"page=3", Asked(page=3)),
        (b"category=rates&coin=eth&page=2", Asked("rates", "ETH", 2)),
        (b"coin=+BTC+", Asked(coin="BTC")),
        (b"category=&coin=&page=", Asked()),
        (b"utm=1&page=1", Asked()),
    ],
)
def test_a_list_is_read_from_its_query(query: bytes, asked: Asked) -> None:
    assert asked_from_query(QueryParams(query)) == asked


@given(
    st.builds(
        Asked,
        category=st.none() | st.sampled_from(CATEGORIES),
        coin=st.none() | st.from_regex(r"[A-Z0-9]{1,15}", fullmatch=True),
        page=st.integers(1, 999_999),
    )
)
def test_the_address_of_a_list_asks_for_it(asked: Asked) -> None:
    assert asked_from_query(QueryParams(asked.query)) == asked
    assert asked.address.removeprefix("/briefs").removeprefix("?") == asked.query


@given(st.binary(max_size=40))
def test_no_query_is_more_than_not_found(query: bytes) -> None:
    found = asked_from_query(QueryParams(query))

    assert found is None or asked_from_query(QueryParams(found.query)) == found

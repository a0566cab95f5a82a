"""Which list of briefs an address asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from barograph.briefs.records import CATEGORIES
from barograph.site.briefs import BriefsQuery, parse_briefs_query


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (b"", BriefsQuery()),
        (b"page=3", BriefsQuery(page=3)),
        (b"category=rates&coin=eth&page=2", BriefsQuery("rates", "ETH", 2)),
        (b"coin=+BTC+", BriefsQuery(coin="BTC")),
        (b"category=&coin=&page=", BriefsQuery()),
        (b"utm=1&page=1", BriefsQuery()),
    ],
)
def test_a_list_is_read_from_its_query(query: bytes, asked: BriefsQuery) -> None:
    assert parse_briefs_query(QueryParams(query)) == asked


@given(
    st.builds(
        BriefsQuery,
        category=st.none() | st.sampled_from(CATEGORIES),
        coin=st.none() | st.from_regex(r"[A-Z0-9]{1,15}", fullmatch=True),
        page=st.integers(1, 999_999),
    )
)
def test_the_address_of_a_list_asks_for_it(asked: BriefsQuery) -> None:
    assert _read_again(asked) == asked
    assert asked.path.removeprefix(asked.page_path).removeprefix("?") == asked.text


@given(st.binary(max_size=40))
def test_no_query_is_more_than_not_found(query: bytes) -> None:
    found = parse_briefs_query(QueryParams(query))

    assert found is None or _read_again(found) == found


def _read_again(asked: BriefsQuery) -> BriefsQuery | None:
    """What the address of a list asks for."""
    folder, _, name = asked.page_path.removeprefix("/briefs").lstrip("/").partition("/")
    in_path = {folder: name} if folder else {}
    return parse_briefs_query(QueryParams(asked.text), **in_path)

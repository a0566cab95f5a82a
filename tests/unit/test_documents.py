"""A document and its headers: no cache may show it past its instant."""

import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.documents import FOREVER, Document, Headers
from support.clock import START

UNTIL = START + 30_000


def field(headers: Headers, name: bytes) -> bytes | None:
    found = [value for key, value in headers if key == name]
    assert len(found) <= 1, f"{name!r} is sent {len(found)} times"
    return found[0] if found else None


def headers_at(document: Document, now: int) -> Headers:
    headers: Headers = document.begin(now)["headers"]
    return headers


def kept_seconds(document: Document, now: int) -> tuple[int, int]:
    """For how long a cache may show it, and then for how long while it asks again."""
    value = field(headers_at(document, now), b"cache-control") or b""
    parts = re.fullmatch(
        rb"public, max-age=(\d+), stale-while-revalidate=(\d+), stale-if-error=0", value
    )
    assert parts is not None, value
    return int(parts[1]), int(parts[2])


@pytest.mark.parametrize(
    ("milliseconds_left", "kept"),
    [
        (30_000, (5, 10)),
        (16_000, (5, 10)),
        (15_999, (5, 9)),
        (11_000, (5, 5)),
        (6_999, (5, 0)),
        (6_000, (5, 0)),
        (5_999, (4, 0)),
        (2_000, (1, 0)),
        (1_999, (0, 0)),
        (0, (0, 0)),
        (-60_000, (0, 0)),
    ],
)
def test_the_nearer_the_end_the_shorter_a_cache_may_keep_it(
    milliseconds_left: int, kept: tuple[int, int]
) -> None:
    assert kept_seconds(Document(b"{}", until=UNTIL), UNTIL - milliseconds_left) == kept


@given(st.integers(START, START + 120_000), st.integers(0, 120_000))
def test_no_cache_that_obeys_shows_a_document_past_its_end(until: int, left: int) -> None:
    now = until - left
    fresh, revalidate = kept_seconds(Document(b"{}", until=until), now)

    # Also a cache that shows it until the last of these seconds is over.
    assert now + (fresh + revalidate + 1) * 1000 <= until or fresh == 0
    assert fresh <= 5
    assert revalidate <= 10
    assert fresh == 5 or revalidate == 0


def test_a_document_without_an_end_may_always_be_kept_for_the_whole_time() -> None:
    document = Document(b"{}")

    assert document.until == FOREVER
    assert kept_seconds(document, START) == kept_seconds(document, START * 2) == (5, 10)


def test_headers_far_from_the_end_are_the_ones_made_once() -> None:
    document = Document(b"{}", until=UNTIL)

    assert document.begin(START) is document.begin(START + 1)


@given(st.integers(-1_000, 31_000))
def test_only_the_cache_control_changes_with_time(passed: int) -> None:
    document = Document(b"[1]", until=UNTIL, modified=START)

    now = [each for each in headers_at(document, START + passed) if each[0] != b"cache-control"]
    then = [each for each in headers_at(document, START) if each[0] != b"cache-control"]
    assert now == then


def test_the_etag_is_a_strong_tag_of_the_bytes_alone() -> None:
    document = Document(b"{}")

    assert document.etag == b'"RBNvo1WzZ4oRRq0W9-hk"'
    assert sha256(b"{}").hexdigest().startswith("44136fa355b3678a1146ad16f7e864")
    assert Document(b"{}", until=UNTIL, modified=START).etag == document.etag
    assert field(headers_at(document, START), b"etag") == document.etag

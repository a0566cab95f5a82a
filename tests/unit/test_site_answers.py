"""Who is answered with a page and who with JSON."""

import pytest

from barograph.kit.documents import Document
from barograph.site.responses import SECURITY_HEADERS, Page, accepts

BROWSER = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (BROWSER, True),
        (b"TEXT/HTML;q=0.1", True),
        (b"application/json, text/html;level=1", True),
        (b"text/html;q=0", False),
        (b"text/html; q=0.000", False),
        (b"application/json", False),
        (b"*/*", False),
        (b"text/*", False),
        (b"text/htmlx", False),
        (b"", False),
        (b";,;,", False),
    ],
)
def test_only_a_client_that_names_html_is_given_a_page(accept: bytes, wanted: bool) -> None:
    assert accepts([(b"host", b"x"), (b"accept", accept)], b"text/html") is wanted


def test_a_client_that_says_nothing_is_a_program() -> None:
    assert not accepts([], b"text/html")


def test_the_second_line_of_accept_counts_too() -> None:
    lines = [(b"accept", b"application/json"), (b"accept", b"text/html")]

    assert accepts(lines, b"text/html")


@pytest.mark.parametrize("now", [0, 99_000])
def test_a_page_is_a_document_with_the_guard_at_every_time_of_its_life(now: int) -> None:
    page = Page(b"x", until=100_000)
    plain = Document(b"x", until=100_000, content_type=b"text/html; charset=utf-8")

    headers = page.begin(now)["headers"]

    assert sorted(headers) == sorted([*plain.begin(now)["headers"], *SECURITY_HEADERS])
    assert (page.etag, page.end) == (plain.etag, plain.end)

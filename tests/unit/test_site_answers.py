"""Who is answered with a page and who with JSON."""

import pytest

from barograph.kit.documents import Document
from barograph.site.responses import SECURITY_HEADERS, Page, accepts

BROWSER = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([BROWSER], True),
        ([b"TEXT/HTML;q=0.1"], True),
        ([b"application/json, text/html;level=1"], True),
        ([b"application/json", b"text/html"], True),
        *(([refused], False) for refused in (b"text/html;q=0", b"text/html; q=0.000")),
        *(([other], False) for other in (b"application/json", b"*/*", b"text/*", b"text/htmlx")),
        *(([empty], False) for empty in (b"", b";,;,")),
        ([], False),
    ],
)
def test_only_a_client_that_names_html_is_given_a_page(lines: list[bytes], wanted: bool) -> None:
    fields = [(b"host", b"x"), *((b"accept", line) for line in lines)]

    assert accepts(fields, b"text/html") is wanted


@pytest.mark.parametrize("now", [0, 99_000])
def test_a_page_is_a_document_with_the_guard_at_every_time_of_its_life(now: int) -> None:
    page = Page(b"x", until=100_000)
    plain = Document(b"x", until=100_000, content_type=b"text/html; charset=utf-8")

    headers = page.begin(now)["headers"]

    assert sorted(headers) == sorted([*plain.begin(now)["headers"], *SECURITY_HEADERS])
    assert (page.etag, page.end) == (plain.etag, plain.end)

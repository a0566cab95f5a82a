"""Failures as pages for people, in the same hand as the others."""

from html import unescape

import pytest
from starlette.requests import Request
from starlette.responses import Response

from barograph.site.site import error_page
from barograph.site.templating import Templates
from support.pages import BROWSER, POLICY
from support.service import BASE_URL

PAGES = Templates(BASE_URL)


def failed(status: int, path: str = "/briefs", accept: str = BROWSER) -> Response | None:
    fields = [(b"accept", accept.encode())]
    request = Request({"type": "http", "method": "GET", "path": path, "headers": fields})
    return error_page(PAGES, request, status, (b"allow", b"GET"))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Bad request"),
        (404, "There is no page at this address."),
        (405, "Method not allowed"),
        (418, "We could not process this request."),
        (500, "Something went wrong on our side."),
        (503, "We can't show this page right now"),
    ],
)
def test_a_browser_is_told_what_failed_in_a_page_that_nobody_keeps(status: int, words: str) -> None:
    answer = failed(status)

    assert answer is not None
    assert answer.status_code == status
    assert words in unescape(bytes(answer.body).decode())
    assert f'<p class="quiet">{status}</p>' in bytes(answer.body).decode()
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["allow"] == "GET"
    assert "access-control-allow-origin" not in answer.headers


def test_what_is_for_programs_never_fails_as_a_page() -> None:
    for path in ("/api", "/data", "/api/agent/nope", "/badge/x.svg", "/data/x.csv"):
        assert failed(404, path) is None
    for path in ("/database", "/apiary", "/badges"):
        assert failed(404, path) is not None
    for accept in ("*/*", "application/json", "text/html;q=0", ""):
        assert failed(500, accept=accept) is None

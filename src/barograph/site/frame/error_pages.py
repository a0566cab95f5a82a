"""What people are shown when there is no answer; programs are told in JSON."""

from http import HTTPStatus

from fastapi import Request, Response

from barograph.site.frame.answers import accepts, private_page
from barograph.site.frame.writer import Pages

FOR_PROGRAMS = ("/api", "/badge", "/data")
"""What is below these speaks JSON, or draws a picture, also when it fails and whoever asks."""

_WORDS = {
    400: "The address or the form holds something that cannot be understood.",
    405: "This address can be read, and nothing can be sent to it that way.",
    500: "This page could not be made. It is noted; trying again later may help.",
}
_OTHER = "What was asked for cannot be done."


def error_page(
    pages: Pages, request: Request, status: int, *fields: tuple[bytes, bytes]
) -> Response | None:
    """The page about a failure; None where a program asked."""
    is_for_programs = request.scope["path"].startswith(FOR_PROGRAMS)
    if is_for_programs or not accepts(request.scope["headers"], b"text/html"):
        return None
    return private_page(status, _written(pages, status), *fields)


def _written(pages: Pages, status: int) -> bytes:
    if status == HTTPStatus.NOT_FOUND:
        return pages.not_found()
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return pages.unavailable()
    title = HTTPStatus(status).phrase.capitalize()
    return pages.fill("error.html", status=status, title=title, text=_WORDS.get(status, _OTHER))

"""What people are shown when there is no answer; programs are told in JSON."""

from functools import lru_cache
from http import HTTPStatus

from fastapi import Request, Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.kit.http import error_response
from barograph.site.frame.paths import DATA_FOLDER
from barograph.site.frame.responses import accepts, private_page
from barograph.site.frame.writer import Pages

FOR_PROGRAMS = ("/api/", BADGE_FOLDER, DATA_FOLDER)
"""What is in these folders speaks JSON, or draws a picture, also when it fails and whoever asks."""

RETRY_SECONDS = 5
RETRY = (b"retry-after", b"%d" % RETRY_SECONDS)
UNREADABLE = "the record cannot be read at the moment; try again shortly"

_WORDS = {
    400: "The address or the form holds something that cannot be understood.",
    429: "Your network requested more uncached pages than we render for one address per minute. "
    "Wait a moment, then try again.",
    405: "This address can be read, and nothing can be sent to it that way.",
    408: "The form did not arrive in time. Send it again.",
    413: "The form is too long.",
    414: "This address is too long. Shorten the part after the question mark.",
    500: "This page could not be made. It is noted; trying again later may help.",
}
_OTHER = "What was asked for cannot be done."


def error_page(
    pages: Pages, request: Request, status: int, *fields: tuple[bytes, bytes]
) -> Response | None:
    """The page about a failure; None where a program asked."""
    if not is_for_people(request):
        return None
    return private_page(status, _written(pages, status), *fields)


def is_for_people(request: Request) -> bool:
    """Whether a failure is to be told in a page."""
    # With the slash: the folder itself is for programs too, and `/apiary` is nothing of theirs.
    if f"{request.scope['path']}/".startswith(FOR_PROGRAMS):
        return False
    return accepts(request.scope["headers"], b"text/html")


def unavailable(
    pages: Pages,
    request: Request,
    template: str = "unavailable.html",
    here: str = "",
    **values: object,
) -> Response:
    """There is such a page, but it cannot be read now; the template says why."""
    if is_for_people(request):
        return private_page(503, pages.fill(template, here=here, **values), RETRY)
    return error_response(503, UNREADABLE, RETRY)


@lru_cache(maxsize=32)
def _written(pages: Pages, status: int) -> bytes:
    """Rendered once, so that an error costs no more than a page."""
    if status == HTTPStatus.NOT_FOUND:
        return pages.not_found()
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return pages.unavailable()
    title = HTTPStatus(status).phrase.capitalize()
    return pages.fill("error.html", status=status, title=title, text=_WORDS.get(status, _OTHER))

"""Error pages for browsers; the same errors are JSON for programs."""

from functools import lru_cache
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.kit.http import error_response
from barograph.site.paths import CHART_FOLDER, DATA_FOLDER
from barograph.site.responses import accepts, private_page
from barograph.site.templating import Templates

FOR_PROGRAMS = ("/api/", BADGE_FOLDER, CHART_FOLDER, DATA_FOLDER)
"""Errors below these paths are JSON or an image, whatever `Accept` says."""

RETRY_SECONDS = 5
RETRY = (b"retry-after", b"%d" % RETRY_SECONDS)
UNREADABLE = "this data is temporarily unavailable; try again in a few seconds"

_TEXTS = {
    400: "The address or the form contains something we can't read. Check it and try again.",
    404: "There is no page at this address. Check the address, or start from one of these pages.",
    405: "This address doesn't accept that kind of request. You can only open it.",
    408: "The form did not arrive in time. Send it again.",
    413: "The form is too long. Shorten it and send it again.",
    414: "This address is too long. Shorten the part after the question mark.",
    429: "Too many page requests came from your IP address in the last minute. "
    "Wait a moment, then try again.",
    500: "Something went wrong on our side. We logged the error; try again later.",
    503: "We can't show this page right now. Try again in a few seconds. The status page says what "
    "is failing and since when.",
}
_OTHER = "We could not process this request."
_TITLES = {503: "Temporarily unavailable"}
_HOME = {"home": "Home page"}
_LINKS = {
    404: {"markets": "All markets", "briefs": "All briefs", "developers": "API for developers"},
}
_OTHER_LINKS = {"status": "Service status"}


def error_page(
    templates: Templates, request: Request, status: int, *fields: tuple[bytes, bytes]
) -> Response | None:
    """The error page; None if the client is a program."""
    if not wants_page(request):
        return None
    return private_page(status, _rendered(templates, status), *fields)


def wants_page(request: Request) -> bool:
    """Whether an error should be a page."""
    # With the slash: `/api` itself is for programs too, and `/apiary` isn't.
    if f"{request.scope['path']}/".startswith(FOR_PROGRAMS):
        return False
    return accepts(request.scope["headers"], b"text/html")


def unavailable(
    templates: Templates, request: Request, template: str = "", **values: object
) -> Response:
    """503: an existing page can't be read now; a template can say why."""
    if not wants_page(request):
        return error_response(503, UNREADABLE, RETRY)
    body = templates.render(template, **values) if template else _rendered(templates, 503)
    return private_page(503, body, RETRY)


@lru_cache(maxsize=32)
def _rendered(templates: Templates, status: int) -> bytes:
    """Cached, so that a flood of errors stays cheap."""
    return templates.render(
        "error.html",
        status=status,
        title=_TITLES.get(status, HTTPStatus(status).phrase.capitalize()),
        text=_TEXTS.get(status, _OTHER),
        links=_LINKS.get(status, _OTHER_LINKS) | _HOME,
    )

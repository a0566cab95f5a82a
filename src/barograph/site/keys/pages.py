"""What the pages about personal keys show, and what their form sends (pure)."""

from urllib.parse import parse_qsl

from barograph.access.allowances import PERSONAL
from barograph.errors import InvalidRequest
from barograph.site.frame.paths import DEVELOPERS_PATH
from barograph.site.frame.writer import Pages

FORM_PLACE = f"{DEVELOPERS_PATH}#get-a-key"
"""Where the form is, below the root."""

SENDING_PLACE = f"{DEVELOPERS_PATH}#send-a-key"
"""Where it is told how a key is sent."""

NOT_AN_ADDRESS = "That is not one plain e-mail address such as name@example.com."


def email_from_form(body: bytes) -> str:
    """Read the one field of a form's body.

    Raises:
        InvalidRequest: it is not the one field `email`, given once, in UTF-8.
    """
    try:
        found = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidRequest(NOT_AN_ADDRESS) from error
    if [name for name, _ in found] != ["email"]:
        raise InvalidRequest(NOT_AN_ADDRESS)
    return found[0][1].strip(" ")


def write_link(pages: Pages, path: str) -> bytes:
    """The button behind a mailed link, which is at `path`."""
    return pages.fill("link.html", path=path)


def write_key(pages: Pages, key: str) -> bytes:
    """A key, shown once."""
    return pages.fill("key.html", key=key, personal=PERSONAL, sending_place=SENDING_PLACE)


def write_message(pages: Pages, title: str, text: str) -> bytes:
    """What became of a request about keys."""
    return pages.fill("message.html", title=title, text=text, form_place=FORM_PLACE)

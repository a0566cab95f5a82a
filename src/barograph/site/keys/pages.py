"""What the pages about personal keys show, and what their form sends (pure)."""

from functools import lru_cache
from urllib.parse import parse_qsl

from barograph.access.allowances import PERSONAL
from barograph.access.mailboxes import MAX_LENGTH
from barograph.errors import InvalidRequest
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
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


class AddressForm:
    """What somebody typed, kept for the page that asks once more."""

    typed = ""

    def read(self, body: bytes) -> str:
        """Read the one field of a form's body.

        Raises:
            InvalidRequest: it is not the one field `email`, given once, in UTF-8.
        """
        found = email_from_form(body)
        self.typed = found[:MAX_LENGTH]
        return found


def again(seconds: int) -> str:
    """When to try again, in words that people use."""
    if seconds * SECOND < 2 * MINUTE:
        return f"Try again in {seconds} second{'' if seconds == 1 else 's'}."
    minutes = -(-seconds * SECOND // MINUTE)
    if minutes * MINUTE < HOUR - 5 * MINUTE:
        return f"Try again in about {minutes} minutes."
    hours = max(1, round(seconds * SECOND / HOUR))
    return f"Try again in about {'an hour' if hours == 1 else f'{hours} hours'}."


def write_link(pages: Pages, path: str) -> bytes:
    """The button behind a mailed link, which is at `path`."""
    return pages.fill("link.html", path=path)


def write_key(pages: Pages, key: str) -> bytes:
    """A key, shown once."""
    return pages.fill("key.html", key=key, personal=PERSONAL, sending_place=SENDING_PLACE)


@lru_cache(maxsize=32)
def write_message(pages: Pages, title: str, text: str) -> bytes:
    """What became of a request about keys; rendered once, because refusals must stay cheap."""
    return pages.fill("message.html", title=title, text=text, form_place=FORM_PLACE)


def write_mailed(pages: Pages, text: str) -> bytes:
    """A link is on its way."""
    return pages.fill("mailed.html", text=text, form_place=FORM_PLACE)


def write_form_again(pages: Pages, title: str, text: str, typed: str, path: str) -> bytes:
    """Why nothing was mailed, and the form with what was typed into it, which goes to `path`."""
    return pages.fill(
        "form_again.html",
        title=title,
        text=text,
        typed=typed,
        link_folder=path,
        max_email=MAX_LENGTH,
    )

"""What each member of a catalog may be (pure).

Every function returns what is wrong, to be read after the member's name, or None.
"""

import re
from urllib.parse import urlsplit

MAX_SOURCE = 200
MAX_SLUG = 80
MAX_TITLE = 120
MAX_DESCRIPTION = 1_000
MAX_TAG = 40
MAX_TAGS = 12
MAX_PAGES = 10_000
MAX_PRICE = 100_000
MAX_URL = 2_000

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+", re.ASCII)


def source(value: object) -> str | None:
    """Whose catalog it is."""
    return _text(value, MAX_SOURCE)


def slug(value: object) -> str | None:
    """The name in a guide's address."""
    if isinstance(value, str) and len(value) <= MAX_SLUG and _SLUG.fullmatch(value):
        return None
    return f"must be lower-case letters and digits with single hyphens between, up to {MAX_SLUG}"


def title(value: object) -> str | None:
    """The name that people read."""
    return _text(value, MAX_TITLE)


def description(value: object) -> str | None:
    """What the reader learns."""
    return _text(value, MAX_DESCRIPTION)


def tags(value: object) -> str | None:
    """Words to find the guide by."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TAGS:
        return f"must be a list of 1 to {MAX_TAGS} texts"
    for number, tag in enumerate(value, 1):
        problem = _text(tag, MAX_TAG)
        if problem is not None:
            return f"{number} {problem}"
    if len({tag.casefold() for tag in value}) < len(value):
        return "must not hold the same text twice"
    return None


def pages(value: object) -> str | None:
    """How long it is."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_PAGES:
        return None
    return f"must be a whole number from 1 to {MAX_PAGES}"


def price(value: object) -> str | None:
    """What it costs in USD: guides are paid, so never zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number in USD"
    if not 0 < value <= MAX_PRICE:  # also says no to NaN
        return f"must be more than 0 and at most {MAX_PRICE}: guides are paid"
    if value != round(value, 2):
        return "must be in dollars and whole cents"
    return None


def url(value: object) -> str | None:
    """Where to buy it."""
    if not isinstance(value, str) or len(value) > MAX_URL or not _URL.fullmatch(value):
        return f"must be an absolute http:// or https:// address of up to {MAX_URL} characters"
    try:
        parts = urlsplit(value)
        _ = parts.port  # read for its check
    except ValueError:
        return "must be an absolute http:// or https:// address with a host and a port that exist"
    if not parts.hostname or parts.username is not None:
        return "must name a host and no user"
    return None


def _text(value: object, longest: int) -> str | None:
    if not isinstance(value, str):
        return "must be a text"
    if not value.strip():
        return "must not be empty"
    if value != value.strip():
        return "must not begin or end with white space"
    if len(value) > longest:
        return f"must have at most {longest} characters, this has {len(value)}"
    if not value.isprintable():
        return "must be one line without control or invisible characters"
    return None

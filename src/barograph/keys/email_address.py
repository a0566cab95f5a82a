"""Parses e-mail addresses strictly (pure).

Quotes, comments, routes and address literals are refused, because mail servers disagree about who
gets such mail. So is a name that begins with a plus: without its tag nothing would be left.
"""

import re
from typing import NamedTuple

from barograph.errors import InvalidRequest

MAX_LENGTH = 254
MAX_LOCAL = 64
INVALID = "email must be one plain address such as name@example.com"

_GMAIL = frozenset({"gmail.com", "googlemail.com"})
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The last label starts with a letter, so that an IP address is not a domain.
_DOMAIN = rf"(?:{_LABEL}\.)+(?=[A-Za-z]){_LABEL}"
_ADDRESS = re.compile(rf"((?!\+){_ATOM}(?:\.{_ATOM})*)@({_DOMAIN})", re.ASCII)


class Address(NamedTuple):
    """An address, and the mailbox that it belongs to."""

    email: str
    """As given, the domain in lower case."""

    mailbox: str
    """The same for every spelling: lower case, without a +tag, and for Gmail without dots."""


def parse_address(text: str) -> Address:
    """Parse an address.

    Raises:
        InvalidRequest: it isn't an address; the message does not repeat it.
    """
    match = _ADDRESS.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None or len(match[1]) > MAX_LOCAL:
        raise InvalidRequest(INVALID)
    local, domain = match[1], match[2].lower()
    return Address(f"{local}@{domain}", _mailbox(local.partition("+")[0].lower(), domain))


def _mailbox(name: str, domain: str) -> str:
    # Gmail ignores dots, and both of its domains lead to the same mailbox.
    if domain in _GMAIL:
        return f"{name.replace('.', '')}@gmail.com"
    return f"{name}@{domain}"

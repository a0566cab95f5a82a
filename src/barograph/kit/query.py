"""Parameters of a query, byte for byte (pure).

A framework's parser drops empty values and picks one of several; here each is seen as it was sent.
"""

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

# Written so that there is one way to match: a long row of zeros must not be tried in all ways.
_INTEGER = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)", re.ASCII)


def given_values(query: bytes, name: str) -> list[str]:
    """Every value that a raw query string gives a parameter, empty ones too."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return [value for key, value in pairs if key == name]


def clamped(values: Sequence[str], *, default: int, lowest: int, highest: int) -> int:
    """An integer that is given once, brought into the range; anything else means the default."""
    integer = _INTEGER.fullmatch(values[0]) if len(values) == 1 else None
    if integer is None:
        return default
    sign, digits = integer.groups()
    if sign == "-":
        return lowest
    # However long it is: it is never made a number that is longer than it needs to be.
    is_beyond = len(digits) > len(str(highest))
    return highest if is_beyond else min(max(int(digits), lowest), highest)

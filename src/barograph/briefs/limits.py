"""The `limit` parameter of briefs (pure)."""

import re
from urllib.parse import parse_qsl

DEFAULT = 15
LOWEST = 1
HIGHEST = 50

# Written so that there is one way to match: a long row of zeros must not be tried in all ways.
_INTEGER = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)", re.ASCII)
_LONGEST = len(str(HIGHEST))


def limit_from_query(query: bytes) -> int:
    """Read `limit`: any integer is brought into the range, anything else means the default."""
    given = [
        value
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if name == "limit"
    ]
    integer = _INTEGER.fullmatch(given[0]) if len(given) == 1 else None
    if integer is None:
        return DEFAULT
    sign, digits = integer.groups()
    if sign == "-":
        return LOWEST
    # However long it is: it is never made a number that is longer than it needs to be.
    return HIGHEST if len(digits) > _LONGEST else min(max(int(digits), LOWEST), HIGHEST)

"""Parameters of a query (pure).

Routes read `request.query_params`, which is parsed once per request and keeps every value as it
was sent, including empty and repeated ones.
"""

import re
from collections.abc import Sequence

from starlette.datastructures import QueryParams

Query = QueryParams

# There is only one way to match, so that a long run of zeros causes no backtracking.
_INTEGER = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)", re.ASCII)


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

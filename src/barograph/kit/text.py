"""Parameters of a query (pure).

Routes read `request.query_params`, which is parsed once per request and keeps every value as it
was sent, including empty and repeated ones.
"""

import re
from collections.abc import Sequence
from math import floor, log10

from starlette.datastructures import QueryParams


def one_line(name: str, text: str, longest: int) -> str:
    """The text without space around it.

    Raises:
        ValueError: it is empty, too long, of several lines, or holds what cannot be printed, such
            as bytes that are no UTF-8.
    """
    line = text.strip()
    if not 1 <= len(line) <= longest or not line.isprintable():
        raise ValueError(f"'{name}' must be one line of 1 to {longest} printable characters")
    return line


LETTERS = ("k", "M", "B", "T")
THOUSAND = 1_000
HUNDRED = 100


def usd(amount: float) -> str:
    """An amount of money: `$950`, `$1.23M`."""
    shown = f"{amount:.0f}"
    for letter in LETTERS:
        if round(amount, 2) < THOUSAND and shown != "1000":
            break
        amount /= THOUSAND
        shown = f"{amount:.2f}{letter}"
    return f"${shown}"


def price(amount: float) -> str:
    """A price with every digit it has, its thousands apart, and no exponent: `92,784.0`.

    Prices of one size have at least as many decimals as exchanges usually give them, so that a
    price that moves does not change its length.
    """
    whole, _, digits = f"{amount:,.10f}".partition(".")
    digits = digits.rstrip("0").ljust(_least_decimals(amount), "0")
    return f"{whole}.{digits}" if digits else whole


def _least_decimals(amount: float) -> int:
    if amount <= 0:
        return 0
    significant = 6 if amount >= HUNDRED else 5
    return max(0, significant - 1 - floor(log10(amount)))


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

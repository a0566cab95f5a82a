"""Short texts: amounts as people read them, and one line that a person typed (pure)."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import floor, log10

NBSP = "\N{NO-BREAK SPACE}"


def one_line(name: str, text: str, longest: int) -> str:
    """The text without surrounding white space.

    Raises:
        ValueError: it is empty, too long, has several lines or unprintable characters.
    """
    line = text.strip()
    if not 1 <= len(line) <= longest or not line.isprintable():
        raise ValueError(f"'{name}' must be one line of 1 to {longest} printable characters")
    return line


LETTERS = ("k", "M", "B", "T")
THOUSAND = 1_000
HUNDRED = 100


def usd(amount: float) -> str:
    """An amount in USD, such as `$950` or `$1.23M`."""
    shown = f"{amount:.0f}"
    for letter in LETTERS:
        if round(amount, 2) < THOUSAND and shown != "1000":
            break
        amount /= THOUSAND
        shown = f"{amount:.2f}{letter}"
    return f"${shown}"


def coverage(percent: float) -> str:
    """The covered share of a period, such as `99.9 %`; cut off, because 99.97 is not complete."""
    return f"{floor(10 * percent) / 10:g} %"


def rate(percent: float) -> str:
    """A funding rate: always signed, because the sign says who pays whom."""
    return f"{percent:+z.4f} %"


def percentile_text(value: float, ordered: Sequence[float], period: str) -> str:
    """How a value compares with sorted ones: `higher than 76 % of the past 30 days`.

    It names the larger side, lower or higher, and leaves out equal values. The share is rounded
    down, so that it never says more than is true.
    """
    count, below = len(ordered), bisect_left(ordered, value)
    equal = bisect_right(ordered, value) - below
    if equal == count:
        return f"the same as in all of {period}"
    if below + equal == count:
        return f"the highest of {period}" if equal else f"higher than in all of {period}"
    if below == 0:
        return f"the lowest of {period}" if equal else f"lower than in all of {period}"
    above = count - below - equal
    share = HUNDRED * max(below, above) / count
    shown = floor(share) if 1 <= share < HUNDRED - 1 else floor(10 * share) / 10
    return f"{'higher' if below >= above else 'lower'} than {shown} % of {period}"


def price(amount: float) -> str:
    """A price with all its digits and no exponent, such as `92,784.0`.

    It has at least as many decimals as exchanges usually show, so that a moving price keeps its
    length.
    """
    whole, _, digits = f"{amount:,.10f}".partition(".")
    digits = digits.rstrip("0").ljust(_least_decimals(amount), "0")
    return f"{whole}.{digits}" if digits else whole


def _least_decimals(amount: float) -> int:
    if amount <= 0:
        return 0
    significant = 6 if amount >= HUNDRED else 5
    return max(0, significant - 1 - floor(log10(amount)))

"""Short texts: amounts as people read them, and one line that a person typed (pure)."""

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


def percentile(rank: float, count: int, of: str = "hours") -> str:
    """A mid-rank in percent: `percentile 98.1 of 720 hours`, `the highest of 720 hours`."""
    below = round(2 * rank * count / HUNDRED) / 2  # a value that is one of them counts half
    if count - below < 1:
        return f"the highest of {count} {of}"
    return f"{'the lowest' if below < 1 else f'percentile {floor(10 * rank) / 10}'} of {count} {of}"


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

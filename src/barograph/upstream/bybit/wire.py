"""How Bybit writes numbers: as decimal strings, with an empty one where there is none."""

import re
from decimal import Context, Decimal
from typing import TypeVar

import msgspec

from barograph.errors import InvalidReply
from barograph.markets.plausibility import Limits

T = TypeVar("T")

Cell = str | int | float | bool | None
"""A field that should be a decimal string. Whatever else comes makes its own row unreadable and
not the whole reply."""

# Python's own float() also takes "nan", "1_000", " 1 " and digits of other scripts.
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
_DIGITS = re.compile(r"[0-9]{1,16}")
_WIDE = Context(prec=120)
_MOMENTS = range(10**12, 4 * 10**12)


class UnreadableError(ValueError):
    """A field does not hold what its name says."""


class OutOfRangeError(UnreadableError):
    """A field holds a number that is out of range."""

    def __init__(self, value: float, limits: Limits) -> None:
        super().__init__(f"{limits.field} of {value:g} is out of range")
        self.field = limits.field


def plausible(value: float, limits: Limits) -> float:
    """Return a value if it is plausible.

    Raises:
        OutOfRangeError: it is not.
    """
    if not limits.hold(value):
        raise OutOfRangeError(value, limits)
    return value


def number(cell: Cell) -> float:
    """Read a decimal string; finite by construction, and never minus zero.

    Raises:
        UnreadableError: it is empty, or not a plain decimal.
    """
    return float(_decimal(cell)) + 0.0


def percent(cell: Cell) -> float:
    """Read a fraction as percent by moving the decimal point of the text.

    Multiplying the float by 100 would turn "0.00057" into 0.056999999999999995.

    Raises:
        UnreadableError: it is empty, or not a plain decimal.
    """
    return float(_WIDE.scaleb(_decimal(cell), 2)) + 0.0


def above_zero(cell: Cell) -> float:
    """Read a decimal string that has no meaning unless it is positive.

    Raises:
        UnreadableError: it is empty, not a plain decimal, or not positive.
    """
    value = number(cell)
    if value <= 0:
        raise UnreadableError(f"{cell!r:.40} is not positive")
    return value


def moment(cell: Cell) -> int:
    """Read milliseconds since the Unix epoch.

    Raises:
        UnreadableError: it is not a whole number, or so far off that its unit must be another.
    """
    at = int(cell) if isinstance(cell, str) and _DIGITS.fullmatch(cell) else cell
    if not isinstance(at, int) or at not in _MOMENTS:
        raise UnreadableError(f"{cell!r:.40} is not a time in milliseconds")
    return at


def parse(data: bytes | str, shape: msgspec.json.Decoder[T], what: str) -> T:
    """Read JSON of a known shape.

    Raises:
        InvalidReply: it is cut off, no JSON, or of another shape.
    """
    try:
        return shape.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidReply(f"{what} cannot be read: {error}") from error


def _decimal(cell: Cell) -> Decimal:
    if not isinstance(cell, str) or not _DECIMAL.fullmatch(cell):
        raise UnreadableError(f"{cell!r:.40} is not a number")
    return Decimal(cell)

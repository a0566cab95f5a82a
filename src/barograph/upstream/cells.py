"""Cells of exchange replies: numbers as decimal strings, times in milliseconds, strict JSON.

The functions that read a cell raise `UnreadableError` if it is empty or has another format.
"""

import re
from decimal import Context, Decimal
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from barograph.errors import InvalidReply
from barograph.markets.exchange import (
    LAST_PRICE,
    LONG_ACCOUNTS,
    OPEN_INTEREST_COINS,
    SETTLED_RATE,
    PlausibleRange,
)

T = TypeVar("T")

Cell = str | int | float | bool | None
"""A field that should be a decimal string. Any other value makes only its own row unreadable."""

# Binance lists `牛来USDT`, Hyperliquid `kPEPE` and `xyz:AAPL`, Bybit `BTCUSDT-25DEC26`.
# The fillers of Hangul count as letters, but nobody sees them.
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?"
_NAME = rf"^(?![-._:])(?!.*[\u115f\u1160\u3164\uffa0])(?:[\w.:-]|{_EMOJI})+\Z"

Name = Annotated[str, Meta(max_length=40, pattern=_NAME)]
"""The name of a contract or a coin: letters and digits of any script, emoji, and `.`, `:`, `-` or
`_` between them. The longest known name has 19 characters. Any other name makes the whole reply
invalid, because names get into the permanent log, into addresses and into spreadsheets."""

_WORD_LIMIT = 40

# Python's own float() also takes "nan", "1_000", " 1 " and digits of other scripts.
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
_DIGITS = re.compile(r"[0-9]{1,16}")
_WIDE = Context(prec=120)
_MOMENTS = range(10**12, 4 * 10**12)
_SUM_TOLERANCE_PCT = 1.0


class UnreadableError(ValueError):
    """A cell doesn't hold what its name says."""


class OutOfRangeError(UnreadableError):
    """A cell holds a number outside its plausible range."""

    def __init__(self, value: float, expected: PlausibleRange) -> None:
        super().__init__(f"{expected.field} of {value:g} is out of range")
        self.field = expected.field


def plausible(value: float, expected: PlausibleRange) -> float:
    """Return a value, or raise `OutOfRangeError` if it is not plausible."""
    if not expected.contains(value):
        raise OutOfRangeError(value, expected)
    return value


def class_word(cell: Cell) -> str:
    """The exchange's word for what a contract follows, as short printable text."""
    return "".join(each if each.isprintable() else "?" for each in str(cell)[:_WORD_LIMIT])


def number(cell: Cell) -> float:
    """Read a decimal string as a finite number, never minus zero."""
    return float(_decimal(cell)) + 0.0


def percent(cell: Cell) -> float:
    """Read a fraction as percent by moving the decimal point of the text.

    Multiplying the float by 100 would turn "0.00057" into 0.056999999999999995.
    """
    return float(_WIDE.scaleb(_decimal(cell), 2)) + 0.0


def above_zero(cell: Cell) -> float:
    """Read a decimal string that must be positive."""
    value = number(cell)
    if value <= 0:
        raise UnreadableError(f"{cell!r:.40} is not positive")
    return value


def price(cell: Cell) -> float:
    """Read a plausible price."""
    return plausible(above_zero(cell), LAST_PRICE)


def coins(cell: Cell) -> float:
    """Read a plausible open interest in coins."""
    return plausible(number(cell), OPEN_INTEREST_COINS)


def settled_pct(cell: Cell) -> float:
    """Read a plausible settled funding rate in percent."""
    return plausible(percent(cell), SETTLED_RATE)


def long_pct(long: Cell, short: Cell) -> float:
    """Read the share of long accounts in percent, which must fit that of short ones."""
    longs, shorts = (plausible(percent(cell), LONG_ACCOUNTS) for cell in (long, short))
    if abs(longs + shorts - 100) > _SUM_TOLERANCE_PCT:
        raise UnreadableError(f"{longs} % and {shorts} % are not 100 %")
    return longs


def moment(cell: Cell) -> int:
    """Read milliseconds since the Unix epoch; refuse values that must be in another unit."""
    at = int(cell) if isinstance(cell, str) and _DIGITS.fullmatch(cell) else cell
    if not isinstance(at, int) or at not in _MOMENTS:
        raise UnreadableError(f"{cell!r:.40} is not a time in milliseconds")
    return at


def announcement(cell: object) -> str:
    """Read a text for people: one line of printable characters, empty if it is no text."""
    text = cell if isinstance(cell, str) else ""
    words = "".join(each if each.isprintable() else " " for each in text).split()
    return " ".join(words)[:300]


def parse(data: bytes | str, shape: msgspec.json.Decoder[T], what: str) -> T:
    """Decode JSON of a known shape, or raise `InvalidReply`."""
    try:
        return shape.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidReply(f"{what} cannot be read: {error}") from error


def _decimal(cell: Cell) -> Decimal:
    if not isinstance(cell, str) or not _DECIMAL.fullmatch(cell):
        raise UnreadableError(f"{cell!r:.40} is not a number")
    return Decimal(cell)

"""Bybit's wire format: numbers as decimal strings, and the envelope around every reply.

The functions that read a cell raise `UnreadableError` if it is empty or has another format.
"""

import re
from decimal import Context, Decimal
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
)
from barograph.kit.timestamps import SECOND
from barograph.markets.exchange import PlausibleRange

T = TypeVar("T")

Cell = str | int | float | bool | None
"""A field that should be a decimal string. Any other value makes only its own row unreadable."""

# Python's own float() also takes "nan", "1_000", " 1 " and digits of other scripts.
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
_DIGITS = re.compile(r"[0-9]{1,16}")
_WIDE = Context(prec=120)
_MOMENTS = range(10**12, 4 * 10**12)

PAUSE_SECONDS = 5.0
"""How long to pause when the exchange throttles us without saying for how long."""

BAN_SECONDS = 600.0
"""How long an address stays banned after "access too frequent"."""

_AHEAD_SECONDS = 60.0
_TEXT_LIMIT = 200

_SYMBOL_WORDS = ("invalid", "not supported", "not exist")


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


def moment(cell: Cell) -> int:
    """Read milliseconds since the Unix epoch; refuse values that must be in another unit."""
    at = int(cell) if isinstance(cell, str) and _DIGITS.fullmatch(cell) else cell
    if not isinstance(at, int) or at not in _MOMENTS:
        raise UnreadableError(f"{cell!r:.40} is not a time in milliseconds")
    return at


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


class HttpReply(Struct, frozen=True):
    """The parts of an HTTP response that its meaning depends on."""

    status: int
    content_type: str
    limit_reset: str | None
    """The header `X-Bapi-Limit-Reset-Timestamp`."""
    body: bytes


class Envelope(Struct, frozen=True, rename="camel"):
    """The envelope of every reply: https://bybit-exchange.github.io/docs/v5/guide ."""

    ret_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    ret_msg: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    time: Annotated[int, Meta(ge=0, lt=2**62)] = 0


_ENVELOPE = msgspec.json.Decoder(Envelope)


def open_envelope(reply: HttpReply, now: int) -> Envelope:
    """Unwrap a reply; codes: https://bybit-exchange.github.io/docs/v5/error .

    Raises:
        Throttled: HTTP 429, code 10006, or the ban that HTTP 403 "access too frequent" announces.
        Forbidden: any other HTTP 403, or codes 10009, 10024 and 10029: the exchange doesn't serve
            our address or region.
        Unreachable: HTTP 5xx, or codes 10000 and 10016: the exchange's own failure.
        UnknownToUpstream: code 10001 about the symbol.
        InvalidReply: everything else that is not a success.
    """
    _check_status(reply, now)
    envelope = parse(reply.body, _ENVELOPE, "the reply")
    detail = f"code {envelope.ret_code}: {envelope.ret_msg[:_TEXT_LIMIT]}"
    match envelope.ret_code:
        case 0:
            return envelope
        case 10001 if _is_about_the_symbol(envelope.ret_msg):
            raise UnknownToUpstream(detail)
        case 10006:
            raise Throttled(detail, _pause(reply, now))
        case 10009 | 10024 | 10029:
            raise Forbidden(detail)
        case 10000 | 10016:
            raise Unreachable(detail)
        case _:
            raise InvalidReply(detail)


def check_clock(envelope: Envelope, now: int, max_age_seconds: float) -> int:
    """Return the time of a reply, or raise `InvalidReply` if it is old or our clocks differ."""
    behind = (now - envelope.time) / SECOND
    if behind > max_age_seconds:
        raise InvalidReply(f"the exchange's clock is {behind:.0f} s behind")
    if -behind > _AHEAD_SECONDS:
        raise InvalidReply(f"the exchange's clock is {-behind:.0f} s ahead")
    return envelope.time


def _check_status(reply: HttpReply, now: int) -> None:
    match reply.status:
        case 200:
            return
        case 403:
            raise _forbidden(reply)
        case 429:
            raise Throttled("HTTP 429", _pause(reply, now))
        case status if 500 <= status <= 599:  # noqa: PLR2004
            raise Unreachable(f"HTTP {status}")
        case status if 300 <= status <= 399:  # noqa: PLR2004
            raise InvalidReply(f"HTTP {status}: redirects are not followed")
        case status:
            raise InvalidReply(f"HTTP {status}")


def _forbidden(reply: HttpReply) -> Throttled | Forbidden:
    """Tell a ban for too many requests from the page that a blocked region gets."""
    is_page = "html" in reply.content_type.lower() or reply.body.lstrip().startswith(b"<")
    if not is_page and b"access too frequent" in reply.body.lower():
        return Throttled("HTTP 403: access too frequent", BAN_SECONDS)
    return Forbidden("HTTP 403: the exchange does not serve this address")


def _pause(reply: HttpReply, now: int) -> float:
    """Seconds until the rate limit resets: https://bybit-exchange.github.io/docs/v5/rate-limit ."""
    text = reply.limit_reset or ""
    if text.isascii() and text.isdigit():
        seconds = (int(text[:16]) - now) / SECOND
        if 0 < seconds <= BAN_SECONDS:
            return seconds
    return PAUSE_SECONDS


def _is_about_the_symbol(message: str) -> bool:
    text = message.lower()
    return "symbol" in text and any(word in text for word in _SYMBOL_WORDS)

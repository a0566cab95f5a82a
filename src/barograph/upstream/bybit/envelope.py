"""What surrounds every REST answer: the HTTP status, the return code and the exchange's clock."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from barograph.errors import InvalidReply, Refused, Throttled, UnknownToUpstream, Unreachable
from barograph.kit.timestamps import SECOND
from barograph.upstream.bybit.wire import parse

PAUSE_SECONDS = 5.0
"""How long to hold back when the exchange says to slow down and not for how long."""

BAN_SECONDS = 600.0
"""How long an address stays banned after "access too frequent"."""

_AHEAD_SECONDS = 60.0
_TEXT_LIMIT = 200

_SYMBOL_WORDS = ("invalid", "not supported", "not exist")


class Reply(Struct, frozen=True):
    """An HTTP answer, as far as its meaning depends on it."""

    status: int
    content_type: str
    limit_reset: str | None
    """The header `X-Bapi-Limit-Reset-Timestamp`."""
    body: bytes


class Envelope(Struct, frozen=True, rename="camel"):
    """The frame of every answer: https://bybit-exchange.github.io/docs/v5/guide ."""

    ret_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    ret_msg: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    time: Annotated[int, Meta(ge=0, lt=2**62)] = 0


_ENVELOPE = msgspec.json.Decoder(Envelope)


def open_envelope(reply: Reply, now: int) -> Envelope:
    """Take the answer out of its frame; codes: https://bybit-exchange.github.io/docs/v5/error .

    Raises:
        Throttled: HTTP 429, code 10006, or the ban that HTTP 403 "access too frequent" announces.
        Refused: any other HTTP 403, or code 10009: geography.
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
        case 10009:
            raise Refused(detail)
        case 10000 | 10016:
            raise Unreachable(detail)
        case _:
            raise InvalidReply(detail)


def check_clock(envelope: Envelope, now: int, max_age_seconds: float) -> int:
    """When the exchange made the answer, if that can be true.

    Raises:
        InvalidReply: the exchange's clock is too far from ours, or the answer is an old one.
    """
    behind = (now - envelope.time) / SECOND
    if behind > max_age_seconds:
        raise InvalidReply(f"the exchange's clock is {behind:.0f} s behind")
    if -behind > _AHEAD_SECONDS:
        raise InvalidReply(f"the exchange's clock is {-behind:.0f} s ahead")
    return envelope.time


def _check_status(reply: Reply, now: int) -> None:
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


def _forbidden(reply: Reply) -> Throttled | Refused:
    """Tell a ban for haste from the page that a blocked region gets."""
    is_page = "html" in reply.content_type.lower() or reply.body.lstrip().startswith(b"<")
    if not is_page and b"access too frequent" in reply.body.lower():
        return Throttled("HTTP 403: access too frequent", BAN_SECONDS)
    return Refused("HTTP 403: the exchange does not serve this address")


def _pause(reply: Reply, now: int) -> float:
    """Seconds until the limit is lifted: https://bybit-exchange.github.io/docs/v5/rate-limit ."""
    text = reply.limit_reset or ""
    if text.isascii() and text.isdigit():
        seconds = (int(text[:16]) - now) / SECOND
        if 0 < seconds <= BAN_SECONDS:
            return seconds
    return PAUSE_SECONDS


def _is_about_the_symbol(message: str) -> bool:
    text = message.lower()
    return "symbol" in text and any(word in text for word in _SYMBOL_WORDS)

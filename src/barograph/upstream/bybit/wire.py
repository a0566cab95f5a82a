"""Bybit's wire format: the envelope around every reply."""

from typing import Annotated

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
from barograph.upstream.cells import parse
from barograph.upstream.venue_client import VenueReply, check_status

PAUSE_SECONDS = 5.0
"""How long to pause when the exchange throttles us without saying for how long."""

BAN_SECONDS = 600.0
"""How long an address stays banned after "access too frequent"."""

_TEXT_LIMIT = 200

_SYMBOL_WORDS = ("invalid", "not supported", "not exist")


class Envelope(Struct, frozen=True, rename="camel"):
    """The envelope of every reply: https://bybit-exchange.github.io/docs/v5/guide ."""

    ret_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    ret_msg: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    time: Annotated[int, Meta(ge=0, lt=2**62)] = 0


_ENVELOPE = msgspec.json.Decoder(Envelope)


def open_envelope(reply: VenueReply, now: int) -> Envelope:
    """Unwrap a reply; codes: https://bybit-exchange.github.io/docs/v5/error .

    Raises:
        Throttled: HTTP 429, codes 10006 and 429, or the ban that HTTP 403 "access too frequent"
            announces.
        Forbidden: any other HTTP 403, HTTP 451, the page that CloudFront sends to a blocked
            address, also with HTTP 200, or codes 10009, 10024 and 10029: the exchange doesn't serve
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
        case 10006 | 429:
            raise Throttled(detail, _pause(reply, now))
        case 10009 | 10024 | 10029:
            raise Forbidden(detail)
        case 10000 | 10016:
            raise Unreachable(detail)
        case _:
            raise InvalidReply(detail)


def _check_status(reply: VenueReply, now: int) -> None:
    match reply.status:
        case 403 | 451:
            raise _forbidden(reply)
        case 429:
            raise Throttled("HTTP 429", _pause(reply, now))
        case 200 if reply.body.lstrip().startswith(b"<") and b"CloudFront" in reply.body:
            raise _forbidden(reply)
        case _:
            check_status(reply)


def _forbidden(reply: VenueReply) -> Throttled | Forbidden:
    """Tell a ban for too many requests from the page that a blocked region gets."""
    is_page = "html" in reply.content_type.lower() or reply.body.lstrip().startswith(b"<")
    if not is_page and b"access too frequent" in reply.body.lower():
        return Throttled("HTTP 403: access too frequent", BAN_SECONDS)
    return Forbidden(f"HTTP {reply.status}: the exchange does not serve this address")


def _pause(reply: VenueReply, now: int) -> float:
    """Seconds until the rate limit resets: https://bybit-exchange.github.io/docs/v5/rate-limit ."""
    text = reply.headers.get("x-bapi-limit-reset-timestamp", "")
    if text.isascii() and text.isdigit():
        seconds = (int(text[:16]) - now) / SECOND
        if 0 < seconds <= BAN_SECONDS:
            return seconds
    return PAUSE_SECONDS


def _is_about_the_symbol(message: str) -> bool:
    text = message.lower()
    return "symbol" in text and any(word in text for word in _SYMBOL_WORDS)

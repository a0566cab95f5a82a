"""Unwraps the envelope of each reply of Bybit's REST endpoints."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from barograph.errors import Forbidden, InvalidReply, Throttled, UnknownToUpstream, Unreachable
from barograph.kit.http_client import HttpReply
from barograph.venues.kit.cells import parse
from barograph.venues.kit.refusals import Refusals

REFUSALS = Refusals(pause=5.0, reset="x-bapi-limit-reset-timestamp")
"""https://bybit-exchange.github.io/docs/v5/rate-limit"""

_TEXT_LIMIT = 200
_SYMBOL_WORDS = ("invalid", "not supported", "not exist")


class Envelope(Struct, frozen=True, rename="camel"):
    """The envelope of every reply: https://bybit-exchange.github.io/docs/v5/guide ."""

    ret_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    ret_msg: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    time: Annotated[int, Meta(ge=0, lt=2**62)] = 0


def open_envelope(reply: HttpReply, now: int) -> Envelope:
    """Unwrap a reply; codes: https://bybit-exchange.github.io/docs/v5/error .

    Raises:
        Throttled: codes 10006 and 429.
        Forbidden: codes 10009, 10024 and 10029: the exchange doesn't serve our address or region.
        Unreachable: codes 10000 and 10016: the exchange's own failure.
        UnknownToUpstream: code 10001 about the symbol.
        InvalidReply: every other code than 0.
        UpstreamError: as `Refusals.check`.
    """
    REFUSALS.check(reply, now)
    envelope = parse(reply.body, Envelope, "the reply")
    detail = f"code {envelope.ret_code}: {envelope.ret_msg[:_TEXT_LIMIT]}"
    match envelope.ret_code:
        case 0:
            return envelope
        case 10001 if _is_about_the_symbol(envelope.ret_msg):
            raise UnknownToUpstream(detail)
        case 10006 | 429:
            raise Throttled(detail, REFUSALS.seconds(reply, now))
        case 10009 | 10024 | 10029:
            raise Forbidden(detail)
        case 10000 | 10016:
            raise Unreachable(detail)
        case _:
            raise InvalidReply(detail)


def _is_about_the_symbol(message: str) -> bool:
    text = message.lower()
    return "symbol" in text and any(word in text for word in _SYMBOL_WORDS)

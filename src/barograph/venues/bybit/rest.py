"""Calls Bybit's REST endpoints, and unwraps the envelope of each reply."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Struct

from barograph.errors import Forbidden, InvalidReply, Throttled, UnknownToUpstream, Unreachable
from barograph.kit.http_client import HttpReply, TimeBudget, check_status
from barograph.kit.timestamps import SECOND
from barograph.venues.kit.cells import parse
from barograph.venues.kit.client import Purpose, VenueClient

T = TypeVar("T")

PAUSE_SECONDS = 5.0
"""How long to pause when the exchange throttles us without saying for how long."""

BAN_SECONDS = 600.0
"""How long an address stays banned after "access too frequent"."""

_TEXT_LIMIT = 200
_SYMBOL_WORDS = ("invalid", "not supported", "not exist")
_IN_QUERIES: Final = "%=+/:;,?@!$'()*"


class Envelope(Struct, frozen=True, rename="camel"):
    """The envelope of every reply: https://bybit-exchange.github.io/docs/v5/guide ."""

    ret_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    ret_msg: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    time: Annotated[int, Meta(ge=0, lt=2**62)] = 0


class RestClient(VenueClient):
    """Calls Bybit's public REST API; every failure is an `UpstreamError`."""

    async def ask(
        self,
        endpoint: str,
        params: Mapping[str, str],
        read: Callable[[Envelope], T],
        budget: TimeBudget,
        purpose: Purpose = "side",
    ) -> T:
        """Call an endpoint as `call` does; `read` takes the envelope of the reply."""
        path = endpoint if endpoint.startswith("/") else f"/v5/market/{endpoint}"
        return await self.call(
            endpoint,
            f"{path}?{_query(params)}",
            lambda reply: read(open_envelope(reply, self._clock())),
            budget,
            purpose=purpose,
        )


def _query(params: Mapping[str, str]) -> str:
    """The query string. A cursor is sent back unchanged, because it is already percent-encoded."""
    query = urlencode({name: value for name, value in params.items() if name != "cursor"})
    cursor = params.get("cursor")
    return query if cursor is None else f"{query}&cursor={quote(cursor, safe=_IN_QUERIES)}"


def open_envelope(reply: HttpReply, now: int) -> Envelope:
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
    envelope = parse(reply.body, Envelope, "the reply")
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


def _check_status(reply: HttpReply, now: int) -> None:
    match reply.status:
        case 403 | 451:
            raise _forbidden(reply)
        case 429:
            raise Throttled("HTTP 429", _pause(reply, now))
        case 200 if reply.body.lstrip().startswith(b"<") and b"CloudFront" in reply.body:
            raise _forbidden(reply)
        case _:
            check_status(reply.status)


def _forbidden(reply: HttpReply) -> Throttled | Forbidden:
    """Tell a ban for too many requests from the page that a blocked region gets."""
    content_type = reply.headers.get("content-type", "").lower()
    is_page = "html" in content_type or reply.body.lstrip().startswith(b"<")
    if not is_page and b"access too frequent" in reply.body.lower():
        return Throttled("HTTP 403: access too frequent", BAN_SECONDS)
    return Forbidden(f"HTTP {reply.status}: the exchange does not serve this address")


def _pause(reply: HttpReply, now: int) -> float:
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

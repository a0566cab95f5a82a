"""Calls Binance's REST endpoints, and translates its refusals."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from barograph.errors import Forbidden, Throttled, UnknownToUpstream
from barograph.kit.http_client import HttpReply, TimeBudget, check_status, retry_after
from barograph.kit.timestamps import SECOND
from barograph.venues.kit.client import Purpose, VenueClient

PAUSE_SECONDS = {429: 60.0, 418: 120.0}
"""How long to pause when the exchange doesn't say: it counts per minute, and bans for two minutes
or longer."""

MAX_PAUSE_SECONDS = 3 * 86_400.0
"""The longest ban."""

_OK = 200
_UNKNOWN = (-1121, -4108)
"""An invalid symbol, or a contract that is being delivered, settled or not traded yet."""

_TEXT_LIMIT = 200
_BANNED_UNTIL = re.compile(r"banned until ([0-9]{13})\b")

T = TypeVar("T")


class _Error(Struct):
    code: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0
    msg: str = ""


_ERROR = msgspec.json.Decoder(_Error)


class RestClient(VenueClient):
    """Calls Binance's public REST API; every failure is an `UpstreamError`."""

    async def ask(
        self,
        path: str,
        params: Mapping[str, str],
        read: Callable[[bytes], T],
        budget: TimeBudget | None = None,
        purpose: Purpose = "side",
    ) -> T:
        """Call an endpoint as `call` does; `read` takes the body of a success."""

        def unwrap(reply: HttpReply) -> T:
            check_reply(reply, self._clock())
            return read(reply.body)

        endpoint, address = path.rpartition("/")[2], f"{path}?{urlencode(params)}"
        return await self.call(endpoint, address, unwrap, budget or self.budget(), purpose=purpose)


def check_reply(reply: HttpReply, now: int) -> None:
    """Check the status of a reply, and the code of an error.

    Raises:
        Forbidden: HTTP 451 or 403: the exchange doesn't serve our address or region.
        Throttled: HTTP 429, or the ban of HTTP 418.
        UnknownToUpstream: HTTP 400 with code -1121 or -4108.
        Unreachable: HTTP 5xx.
        InvalidReply: everything else that is not a success.
    """
    if reply.status == _OK:
        return
    error = _error(reply.body)
    detail = f"HTTP {reply.status}, code {error.code}: {error.msg[:_TEXT_LIMIT]}"
    match reply.status:
        case 451 | 403:
            raise Forbidden(detail)
        case 429 | 418:
            raise Throttled(detail, _pause(reply, error, now))
        case 400 if error.code in _UNKNOWN:
            raise UnknownToUpstream(detail)
        case _:
            check_status(reply.status)


def _error(body: bytes) -> _Error:
    """The error of a body; a web server before the exchange sends none."""
    try:
        return _ERROR.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Error()


def _pause(reply: HttpReply, error: _Error, now: int) -> float:
    """Seconds until we may call again, by the header or by the text of a ban (code -1003)."""
    until = _BANNED_UNTIL.search(error.msg)
    if until is None:
        return retry_after(reply.headers, PAUSE_SECONDS[reply.status], MAX_PAUSE_SECONDS)
    return min(max((int(until[1]) - now) / SECOND, 1.0), MAX_PAUSE_SECONDS)

"""How an exchange refuses a call, translated to the kinds of `barograph.errors`."""

import re
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec
from msgspec import Struct

from barograph.errors import Forbidden, Throttled, UnknownToUpstream
from barograph.kit.http_client import HttpReply, check_status, retry_after
from barograph.kit.timestamps import SECOND

BAN_SECONDS = 600.0
"""How long an address stays banned after "access too frequent"."""

_OK, _BANNED = 200, 418
_TEXT_LIMIT = 200
_BANNED_UNTIL = re.compile(r"banned until ([0-9]{13})\b")


class Refusals(NamedTuple):
    """How one exchange says no."""

    unknown: AbstractSet[str] = frozenset()
    """The codes or labels of an error about a contract that the exchange doesn't know."""

    pause: float = 60.0
    """How many seconds to pause when it throttles us without saying for how long; twice that after
    a ban."""

    longest: float = 600.0
    """The longest pause that we believe."""

    reset: str = ""
    """The header with the time at which a limit resets, in milliseconds since the Unix epoch."""

    def check(self, reply: HttpReply, now: int) -> None:
        """Check the status of a reply, and the code of an error.

        Raises:
            Forbidden: HTTP 451 or 403, or the page that CloudFront sends to a blocked address, also
                with HTTP 200: the exchange doesn't serve our address or region.
            Throttled: HTTP 429, or the ban of HTTP 418 or of 403 "access too frequent".
            UnknownToUpstream: an error whose code is in `unknown`.
            Unreachable: HTTP 5xx.
            InvalidReply: everything else that is not a success.
        """
        is_page = reply.body[:64].lstrip().startswith(b"<")
        if reply.status == _OK and not (is_page and b"CloudFront" in reply.body):
            return
        error = _error(reply.body)
        text = (error.msg or error.message or "")[:_TEXT_LIMIT]
        detail = f"HTTP {reply.status}" + (f", {error.word}: {text}" if error.word else "")
        match reply.status:
            case 403 if not is_page and b"access too frequent" in reply.body.lower():
                raise Throttled("HTTP 403: access too frequent", BAN_SECONDS)
            case 200 | 403 | 451:
                raise Forbidden(f"{detail}: the exchange does not serve this address")
            case 429 | 418:
                raise Throttled(detail, self.seconds(reply, now, text))
            case _ if error.word in self.unknown:
                raise UnknownToUpstream(detail)
            case _:
                check_status(reply.status)

    def seconds(self, reply: HttpReply, now: int, text: str = "") -> float:
        """How long to pause, by a header or by the text of a ban."""
        if (until := _BANNED_UNTIL.search(text)) is not None:
            return min(max((int(until[1]) - now) / SECOND, 1.0), self.longest)
        reset = reply.headers.get(self.reset, "")
        if reset.isascii() and reset.isdigit():
            seconds = (int(reset[:16]) - now) / SECOND
            if 0 < seconds <= self.longest:
                return seconds
        usual = self.pause * 2 if reply.status == _BANNED else self.pause
        return retry_after(reply.headers, usual, self.longest)


class _Error(Struct):
    code: int | str | None = None
    label: str | None = None
    msg: str | None = None
    message: str | None = None

    @property
    def word(self) -> str:
        return self.label or ("" if self.code is None else str(self.code))


_ERROR = msgspec.json.Decoder(_Error)


def _error(body: bytes) -> _Error:
    """The error of a body; a web server before the exchange sends none."""
    try:
        return _ERROR.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Error()

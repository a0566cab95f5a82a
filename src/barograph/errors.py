"""The errors that Barograph raises on purpose.

A part may have its own beside these, each below one of them: who is refused
(`limits/rate_limits.py`), a link, a mail, a brief or a catalog that cannot be used.

BarographError
├── ConfigurationError        a setting or a command line that cannot work
├── RequestError              an answer other than success, with its HTTP status
│   ├── InvalidRequest        400
│   ├── BodyTimeout           408
│   ├── BodyTooLong           413
│   ├── RecordUnavailable     500
│   ├── UpstreamUnavailable   502
│   └── PrivateError          of an entitled or paid endpoint, with its wire code
│       └── Unavailable       503
├── LeaseLost                 another collector leads; nothing may be recorded any more
└── UpstreamError             what an upstream did, named by kind
    ├── UnknownToUpstream     it answered that it does not know what was asked for
    ├── InvalidReply          it answered with something that cannot be what it means
    ├── Unreachable           no answer in time, a broken connection, or a 5xx
    ├── Throttled             it asked us to slow down
    └── Refused               it will not serve us (geography, a ban)
"""

from collections.abc import Sequence
from typing import ClassVar


class BarographError(Exception):
    """The base of every error raised on purpose."""


class ConfigurationError(BarographError):
    """A setting or command line that cannot work; the message names the remedy."""


class RequestError(BarographError):
    """A request that ends in something other than success."""

    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(RequestError):
    """The caller asked for something malformed."""

    status = 400


class BodyTimeout(RequestError):
    """The body did not arrive in time."""

    status = 408

    def __init__(self) -> None:
        super().__init__("the request body did not arrive in time")


class BodyTooLong(RequestError):
    """The body is longer than anything the service reads."""

    status = 413

    def __init__(self, longest: int) -> None:
        super().__init__(f"the body may have at most {longest:,} bytes")


class RecordUnavailable(RequestError):
    """The database cannot be read, and what is in memory is too old."""

    status = 500

    def __init__(self) -> None:
        super().__init__("the record cannot be read at the moment; try again shortly")


class UpstreamUnavailable(RequestError):
    """Fresh data from the exchange is not to be had: 502 beats stale data."""

    status = 502

    def __init__(self) -> None:
        super().__init__("upstream market data is unavailable or too old; try again shortly")


class PrivateError(RequestError):
    """An answer other than success of an entitled or paid endpoint; nobody may keep it."""

    code: ClassVar[str]
    """What the contract calls it on the wire."""

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """The header fields that its answer carries beside the usual ones."""
        return []


class Unavailable(PrivateError):
    """Something cannot be asked, or cannot tell, in time; nothing was changed by asking."""

    status = 503

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to try again."""
        return [(b"retry-after", b"5")]


class LeaseLost(BarographError):
    """Another collector holds the lease; whatever was being written is rolled back."""


class UpstreamError(BarographError):
    """A failure of an upstream; `kind` is the word that logs and `/api/status` use."""

    kind: str = "failed"


class UnknownToUpstream(UpstreamError):
    """The upstream answered that it does not know what was asked for."""

    kind = "not found"


class InvalidReply(UpstreamError):
    """The upstream answered with something that cannot be what it means."""

    kind = "invalid reply"


class Unreachable(UpstreamError):
    """No answer in time, a broken connection, or the upstream's own failure."""

    kind = "unreachable"


class Throttled(UpstreamError):
    """The upstream asked us to slow down; `retry_after` is the pause in seconds."""

    kind = "throttled"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(UpstreamError):
    """The upstream will not serve us; asking again does not help."""

    kind = "refused"

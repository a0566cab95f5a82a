"""The errors that Barograph raises on purpose.

Other modules define more of them, each below one of these.

BarographError
├── ConfigurationError          a setting or a command line that can't work
├── RequestError                a response other than success, with its HTTP status
│   ├── InvalidRequest          400
│   ├── NotFound                404
│   ├── BodyTimeout             408
│   ├── BodyTooLong             413
│   ├── RecordUnavailable       500
│   ├── UpstreamUnavailable     502
│   ├── TemporarilyUnavailable  503
│   └── PrivateError            of a subscriber or paid endpoint, with its wire code
│       └── PrivateUnavailable  503
├── LeaseLost                   another collector leads
└── UpstreamError               a failure of an upstream, named by kind
    ├── UnknownToUpstream       the upstream does not know what we asked for
    ├── InvalidReply            the reply can't be right
    ├── Unreachable             no reply in time, a broken connection, or a 5xx
    ├── Throttled               the upstream asked us to slow down
    └── Forbidden               the upstream will not serve us (geography, a ban)
"""

from collections.abc import Sequence
from typing import ClassVar

EXIT_CONFIGURATION = 3
"""The exit code for a wrong configuration, which a restart would not help."""


class BarographError(Exception):
    """The base of every error raised on purpose."""


class ConfigurationError(BarographError):
    """A setting or command line that can't work; the message says what to do."""


class RequestError(BarographError):
    """A request that ends in something other than success."""

    status: ClassVar[int] = 500
    text: ClassVar[str] = ""
    """The message of an error that always has the same one."""

    def __init__(self, message: str | None = None) -> None:
        self.message = self.text if message is None else message
        super().__init__(self.message)


class InvalidRequest(RequestError):
    """The request is malformed."""

    status = 400


class NotFound(RequestError):
    """There is nothing by that name; the message says which names there are."""

    status = 404


class BodyTimeout(RequestError):
    """The body did not arrive in time."""

    status = 408
    text = "the request body did not arrive in time"


class BodyTooLong(RequestError):
    """The body is longer than any that the service reads."""

    status = 413

    def __init__(self, longest: int) -> None:
        super().__init__(f"the body may have at most {longest:,} bytes")


class RecordUnavailable(RequestError):
    """The database can't be read, and the copy in memory is too old."""

    status = 500
    text = "the record cannot be read at the moment; try again shortly"


class UpstreamUnavailable(RequestError):
    """Fresh data from the exchange is unavailable, and stale data is never shown."""

    status = 502
    text = "upstream market data is unavailable or too old; try again shortly"


class TemporarilyUnavailable(RequestError):
    """A database can't be read; the same request may succeed in a few seconds."""

    status = 503
    text = "this data is temporarily unavailable; try again in a few seconds"


class PrivateError(RequestError):
    """A response other than success of a subscriber or paid endpoint; no cache may store it."""

    code: ClassVar[str]
    """The contract's code on the wire."""

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """Additional header fields of the response."""
        return []


class PrivateUnavailable(PrivateError):
    """A dependency did not answer in time; nothing was changed."""

    status = 503

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to try again."""
        return [(b"retry-after", b"5")]


class LeaseLost(BarographError):
    """Another collector holds the lease; the transaction is rolled back."""


class UpstreamError(BarographError):
    """A failure of an upstream; logs and `/api/status` name it by `kind`."""

    kind: str = "failed"


class UnknownToUpstream(UpstreamError):
    """The upstream does not know what we asked for."""

    kind = "not found"


class InvalidReply(UpstreamError):
    """The reply can't be right."""

    kind = "invalid reply"


class Unreachable(UpstreamError):
    """No reply in time, a broken connection, or a failure of the upstream itself."""

    kind = "unreachable"


class Throttled(UpstreamError):
    """The upstream asked us to slow down; `retry_after` is the pause in seconds."""

    kind = "throttled"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Disputed(UpstreamError):
    """The upstream's values contradict those of other upstreams."""

    kind = "disputed"


class Forbidden(UpstreamError):
    """The upstream will not serve us; a retry does not help."""

    kind = "refused"

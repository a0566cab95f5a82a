"""The errors that the clients raise, by what you can do about them.

ClientError
├── Unreachable               no complete response
├── InvalidAnswer             the response can't be read
├── ReferencesUnusable        the file of references can't be read or written
├── Contradiction             an audit found that the service contradicts itself or what you kept
├── NotAudited                an audit could not be finished, which says nothing about the service
└── Refused                   the service answered with an error
    ├── InvalidRequest        400
    ├── CredentialRefused     401
    ├── PaymentRequired       402: the client never pays
    ├── NotFound              404
    │   └── NoPair            404 `comparison_reference_unavailable`
    ├── RateLimited           429
    ├── RecordUnavailable     500
    ├── UpstreamUnavailable   502: no fresh market data
    └── Unavailable           503
"""


class ClientError(Exception):
    """The base of all errors of the client."""


class Unreachable(ClientError):
    """No complete response: no connection, a broken one, or a timeout."""


class InvalidAnswer(ClientError):
    """The response can't be the answer, such as the page of a proxy."""


class ReferencesUnusable(ClientError):
    """The file of references can't be read or written."""


class Contradiction(ClientError):
    """The service contradicts itself, its signatures, or what you kept."""

    def __init__(self, message: str, *notes: str) -> None:
        super().__init__(message)
        self.notes = notes
        """The signed checkpoints that show it."""


class NotAudited(ClientError):
    """An audit could not be finished: something is missing or can't be read."""


class Refused(ClientError):
    """The service answered with an error."""

    def __init__(
        self, status: int, message: str, *, code: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        """The error code of subscriber endpoints; empty elsewhere."""

        self.retry_after = retry_after
        """Seconds until a retry makes sense; None if the service didn't say."""


class InvalidRequest(Refused):
    """A parameter is invalid."""


class CredentialRefused(Refused):
    """The API key, token or proof is not valid."""


class PaymentRequired(Refused):
    """There is no active Feed entitlement. Nothing was charged, and the client never pays."""


class NotFound(Refused):
    """The service has no such resource."""


class NoPair(NotFound):
    """The two references are not the latest two recorded versions."""


class RateLimited(Refused):
    """The rate limit is used up; the refused request doesn't count against it."""


class RecordUnavailable(Refused):
    """The service could not read its own history."""


class UpstreamUnavailable(Refused):
    """The market data is past its freshness limit, and so is any earlier answer."""


class Unavailable(Refused):
    """The service can't answer at the moment; retry later."""


BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: CredentialRefused,
    402: PaymentRequired,
    404: NotFound,
    429: RateLimited,
    500: RecordUnavailable,
    502: UpstreamUnavailable,
    503: Unavailable,
}

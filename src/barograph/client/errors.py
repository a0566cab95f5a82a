"""What a client raises, by what the caller can do about it.

ClientError
├── Unreachable               no whole answer came
├── InvalidAnswer             something came that cannot be the answer
├── ReferencesUnusable        the file of kept references cannot be read or written
└── Refused                   the service answered with something other than success
    ├── InvalidRequest        400
    ├── CredentialRefused     401
    ├── PaymentRequired       402: nothing here pays
    ├── NotFound              404
    │   └── NoPair            404 `comparison_reference_unavailable`
    ├── RateLimited           429
    ├── RecordUnavailable     500
    ├── UpstreamUnavailable   502: there is nothing fresh
    └── Unavailable           503
"""


class ClientError(Exception):
    """The base of every error of the client."""


class Unreachable(ClientError):
    """No whole answer came: no connection, a broken one, or none in time."""


class InvalidAnswer(ClientError):
    """Something came that cannot be the answer, such as a proxy's page."""


class ReferencesUnusable(ClientError):
    """The file of kept references cannot be read or written."""


class Refused(ClientError):
    """The service answered with something other than success."""

    def __init__(
        self, status: int, message: str, *, code: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        """What entitled endpoints call it; empty where there is no code."""

        self.retry_after = retry_after
        """After how many seconds it is worth asking again; None when that was not said."""


class InvalidRequest(Refused):
    """What was asked for is malformed."""


class CredentialRefused(Refused):
    """The API key, token or proof that was sent is not valid."""


class PaymentRequired(Refused):
    """There is no active Feed entitlement. Nothing was charged, and the client never pays."""


class NotFound(Refused):
    """There is no such thing here."""


class NoPair(NotFound):
    """The two references are not the latest two recorded versions that stand."""


class RateLimited(Refused):
    """The allowance is spent; the refused request was not charged to it."""


class RecordUnavailable(Refused):
    """The service failed to read its own record."""


class UpstreamUnavailable(Refused):
    """The market data is too old to be shown; what was read before is too."""


class Unavailable(Refused):
    """It cannot be told at the moment; try again later."""


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

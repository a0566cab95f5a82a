"""The tables of errors on the developer page (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

from barograph.entitlements.refusals import (
    ENTITLEMENT_REQUIRED,
    FeedEntryClosed,
    FeedIdentityRequired,
)
from barograph.errors import PrivateError
from barograph.feed.documents import FeedUnavailable
from barograph.kit.request_limits import MAX_PARAMETERS, MAX_QUERY_BYTES
from barograph.material_change.query import (
    PARAMETERS,
    ComparisonReferenceUnavailable,
    ComparisonUnavailable,
    InvalidComparisonReference,
)
from barograph.payments.offers import (
    INVALID,
    NEEDED,
    REFUSED,
    PaymentPending,
    PaymentUnavailable,
    PaymentUsed,
    TooManyProofs,
)
from barograph.payments.proof import InvalidIdempotencyKey
from barograph.stances.documents import NoStance, StanceNotActive, StanceUnavailable


class Problem(NamedTuple):
    """A row of the table of errors of free endpoints."""

    status: int
    when: str
    retry: str


class CodedProblem(NamedTuple):
    """A row of the table of errors of subscriber and paid endpoints."""

    status: int
    error: str
    """The member `error`: a code, or with 402 a sentence, as x402 specifies."""

    endpoints: Sequence[str]
    """Which endpoints return it, by the names below."""

    when: str
    retry: str


COMPARISON = "comparison"
FEED_NOW = "feed"
STANCE_READS = "stance endpoints"
FEED_ENTRY = "Feed entry"

_COMPARISON = (COMPARISON,)
_IDENTIFYING = (COMPARISON, FEED_NOW)
"""Where a proof only identifies a wallet and is never charged."""

_STANCES = (STANCE_READS,)
_CHARGING = (STANCE_READS, FEED_ENTRY)
_ALL = (*_IDENTIFYING, *_CHARGING)


def _coded(
    error: type[PrivateError], endpoints: Sequence[str], when: str, retry: str
) -> CodedProblem:
    return CodedProblem(error.status, error.code, endpoints, when, retry)


ERRORS = [
    Problem(400, "the symbol or the body is malformed", "no: correct the request"),
    Problem(401, "the key is unknown or revoked", "no: omit the key, or request a new one"),
    Problem(
        403,
        "a page of another website requested a key",
        "no: use our form, or send the request from a program",
    ),
    Problem(404, "nothing exists at this path", "no"),
    Problem(405, "this path doesn't support the method", "no: use a method listed in Allow"),
    Problem(408, "the body did not arrive in time", "yes: send the whole body at once"),
    Problem(410, "a key link was used or has expired", "no: request a new link"),
    Problem(413, "the body is too long", "no: shorten the body"),
    Problem(
        414,
        f"the query is over {MAX_QUERY_BYTES // 1024} KiB or {MAX_PARAMETERS} parameters",
        "no: shorten the query",
    ),
    Problem(415, "the Content-Type is not JSON", "no: send Content-Type: application/json"),
    Problem(429, "the rate limit is reached", "yes: after Retry-After seconds"),
    Problem(
        500,
        "briefs can't be read, or an internal error",
        "yes: a few times, with increasing pauses",
    ),
    Problem(
        502, "fresh market data is unavailable", "yes: after a few seconds, with increasing pauses"
    ),
    Problem(
        503,
        "the data or the rate-limit store is unavailable, the server is busy, or no mail server is "
        "configured",
        "yes: after Retry-After, or after a few seconds",
    ),
]
CODED_ERRORS: Sequence[CodedProblem] = [
    _coded(
        InvalidComparisonReference,
        _COMPARISON,
        "a parameter is missing, unknown, repeated or malformed",
        f"no: send exactly the {len(PARAMETERS)} parameters, each once and unchanged",
    ),
    _coded(
        InvalidIdempotencyKey,
        _CHARGING,
        "the Idempotency-Key or payment identifier is malformed; nothing was charged",
        "no: correct the key; you can still use the same proof",
    ),
    _coded(
        FeedIdentityRequired,
        (*_IDENTIFYING, STANCE_READS),
        "the token is invalid, or its user has no confirmed e-mail address; at endpoints that "
        "don't charge, also an invalid or already used proof",
        "no: get a new token, or sign a new proof",
    ),
    CodedProblem(
        402,
        ENTITLEMENT_REQUIRED,
        (*_IDENTIFYING, FEED_ENTRY),
        "no payment was sent, or the caller has no active Feed; Reserve alone is not enough",
        "no: check whether Feed is active, and do not pay again automatically",
    ),
    CodedProblem(
        402,
        NEEDED,
        _STANCES,
        "no payment proof and no token of a user with Feed was sent; the body states the price of "
        "one read",
        "no: pay for it, or identify yourself as a Feed subscriber",
    ),
    CodedProblem(
        402,
        INVALID.format("…"),
        _CHARGING,
        "the proof is malformed, expired or for other terms, or the facilitator rejects it",
        "no: sign exactly the terms in the body; nothing was charged",
    ),
    CodedProblem(
        402,
        REFUSED,
        _CHARGING,
        "the payment was valid but could not be settled",
        "no: check your wallet first; nothing was charged",
    ),
    _coded(
        ComparisonReferenceUnavailable,
        _COMPARISON,
        "the pair is not the latest two versions, or the latest has expired or was withdrawn",
        "no: read the current stance, and stop if there is no earlier version to compare it with",
    ),
    _coded(
        FeedEntryClosed,
        _ALL,
        "no token was sent, and this instance doesn't sell Feed by x402",
        "no",
    ),
    _coded(NoStance, _STANCES, "no stance of this kind has been issued yet", "no: see /api/status"),
    _coded(
        StanceNotActive,
        _STANCES,
        "the newest stance has expired or was withdrawn; nothing was charged",
        "no: wait for the next one",
    ),
    CodedProblem(405, "method_not_allowed", _ALL, "the method is not GET", "no: use GET"),
    _coded(
        PaymentUsed,
        _CHARGING,
        "this payment, or another one with the same key, was already charged; don't pay again",
        "no: send the proof and the Idempotency-Key of the first request to the same endpoint",
    ),
    _coded(
        TooManyProofs,
        _CHARGING,
        "too many proofs from one address",
        "yes: after Retry-After seconds",
    ),
    _coded(
        PaymentPending,
        _CHARGING,
        "we don't know yet whether the payment was charged, we can't deliver what it bought now, "
        "or its wallet is buying Feed with another proof; the message says which",
        "yes: with the first proof after Retry-After seconds; never pay again",
    ),
    _coded(
        PaymentUnavailable,
        _CHARGING,
        "we can't verify payments now; nothing was charged",
        "yes: after Retry-After seconds",
    ),
    *(
        _coded(
            error,
            (endpoint,),
            "the identity provider, the entitlements or the record is unavailable",
            "yes: later",
        )
        for error, endpoint in (
            (ComparisonUnavailable, COMPARISON),
            (FeedUnavailable, FEED_NOW),
            (StanceUnavailable, STANCE_READS),
        )
    ),
]

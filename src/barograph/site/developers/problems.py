"""How calls fail, as the developer page tells it (pure)."""

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
from barograph.payments.refusals import (
    INVALID,
    NEEDED,
    REFUSED,
    InvalidIdempotencyKey,
    PaymentPending,
    PaymentUnavailable,
    PaymentUsed,
    TooManyProofs,
)
from barograph.stances.documents import NoStance, StanceNotActive, StanceUnavailable


class Problem(NamedTuple):
    """A row of the table of errors of free endpoints."""

    status: int
    when: str
    retry: str


class CodedProblem(NamedTuple):
    """A row of the table of errors of entitled and paid endpoints."""

    status: int
    error: str
    """What the member `error` holds: a code, or with 402 a text, as x402 has it."""

    doors: Sequence[str]
    """Where it is answered, by the name of the door."""

    when: str
    retry: str


COMPARISON = "comparison"
FEED_NOW = "feed"
STANCE_READS = "stance reads"
FEED_ENTRY = "Feed entry"
"""The doors, by what they are called where their paths are not known."""

_COMPARISON = (COMPARISON,)
_LOOKING = (COMPARISON, FEED_NOW)
"""Where a proof is only looked at."""

_STANCES = (STANCE_READS,)
_PAYING = (STANCE_READS, FEED_ENTRY)
_ALL = (*_LOOKING, *_PAYING)


def _coded(error: type[PrivateError], doors: Sequence[str], when: str, retry: str) -> CodedProblem:
    return CodedProblem(error.status, error.code, doors, when, retry)


ERRORS = [
    Problem(400, "the symbol or the body is malformed", "no: correct the request"),
    Problem(401, "the key is unknown or was revoked", "no: send no key, or ask for a new one"),
    Problem(403, "a page of another website asked for a key", "no: use our own form or a program"),
    Problem(404, "there is nothing at this path", "no"),
    Problem(405, "the path does not know this method", "no: the Allow field lists those it knows"),
    Problem(408, "the body did not arrive in time", "yes: send the whole body at once"),
    Problem(410, "a link for a key was used or is too old", "no: ask for a new link"),
    Problem(413, "the body is too long", "no: shorten the body"),
    Problem(
        414,
        f"the query is over {MAX_QUERY_BYTES // 1024} KiB or {MAX_PARAMETERS} parameters",
        "no: shorten the query",
    ),
    Problem(415, "a body is not declared as JSON", "no: send Content-Type: application/json"),
    Problem(429, "the allowance is spent", "yes, after Retry-After seconds"),
    Problem(500, "briefs cannot be read, or a fault of ours", "yes, a few times, with pauses"),
    Problem(502, "fresh market data is not to be had", "yes, after some seconds, with pauses"),
    Problem(503, "it cannot be read or counted now", "yes, after Retry-After or some seconds"),
]
CODED_ERRORS: Sequence[CodedProblem] = [
    _coded(
        InvalidComparisonReference,
        _COMPARISON,
        "a parameter is missing, extra, repeated or malformed",
        f"no: send exactly the {len(PARAMETERS)} parameters, each once and as it came",
    ),
    _coded(
        InvalidIdempotencyKey,
        _PAYING,
        "the Idempotency-Key or payment identifier is malformed; nothing was charged",
        "no: correct the key; the same proof can still be used",
    ),
    _coded(
        FeedIdentityRequired,
        (*_LOOKING, STANCE_READS),
        "the token does not verify, or its user has no confirmed address; where a proof is only "
        "looked at, also a proof that does not verify or was used",
        "no: get a new token, or sign a new proof",
    ),
    CodedProblem(
        402,
        ENTITLEMENT_REQUIRED,
        (*_LOOKING, FEED_ENTRY),
        "nobody paid, or the caller has no active Feed; Reserve alone is not enough",
        "no: look whether Feed is active, and do not pay again automatically",
    ),
    CodedProblem(
        402,
        NEEDED,
        _STANCES,
        "no proof came, and no token of a user with Feed: the body says what one read costs",
        "no: pay for it, or show a Feed identity",
    ),
    CodedProblem(
        402,
        INVALID.format("…"),
        _PAYING,
        "the proof is malformed, too old, over other terms, or the facilitator says no",
        "no: sign exactly what the body asks for; nothing was charged",
    ),
    CodedProblem(
        402,
        REFUSED,
        _PAYING,
        "the payment was good and then could not be settled",
        "no: look at your wallet first; nothing was charged",
    ),
    _coded(
        ComparisonReferenceUnavailable,
        _COMPARISON,
        "the pair is not the latest two, or the latest has expired or was withdrawn",
        "no: read the current stance, and stop if it has no pair",
    ),
    _coded(FeedEntryClosed, _ALL, "no token came, and x402 is disabled here", "no"),
    _coded(NoStance, _STANCES, "no stance of this kind was issued yet", "no: /api/status says why"),
    _coded(
        StanceNotActive,
        _STANCES,
        "the newest stance has expired or was withdrawn; nothing was charged",
        "no: wait for the next one",
    ),
    CodedProblem(405, "method_not_allowed", _ALL, "another method than GET", "no"),
    _coded(
        PaymentUsed,
        _PAYING,
        "this payment, or another one with the same key, was charged before; don't pay again",
        "no: send the proof and the Idempotency-Key of the first request to the same address",
    ),
    _coded(
        TooManyProofs,
        _PAYING,
        "too many proofs from one address",
        "yes, after Retry-After seconds",
    ),
    _coded(
        PaymentPending,
        _PAYING,
        "we don't know yet whether the payment was charged, or its wallet was buying Feed with "
        "another proof, as the message says",
        "yes, with the first proof after Retry-After seconds; never pay again",
    ),
    _coded(
        PaymentUnavailable,
        _PAYING,
        "payments cannot be verified; nothing was charged",
        "yes, after Retry-After seconds",
    ),
    *(
        _coded(error, (door,), "identity, entitlement or the record can't be read", "yes, later")
        for error, door in (
            (ComparisonUnavailable, COMPARISON),
            (FeedUnavailable, FEED_NOW),
            (StanceUnavailable, STANCE_READS),
        )
    ),
]

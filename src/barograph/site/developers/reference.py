"""What the developer page tells, taken from the code that it tells about (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

from barograph.access.allowances import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    PERSONAL,
    PROOFS,
    REGISTRATIONS,
    TOOL_CALLS,
    Standing,
)
from barograph.access.feed_refusals import (
    FeedEntitlementRequired,
    FeedEntryClosed,
    FeedIdentityRequired,
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
    PaymentUsed,
    TooManyProofs,
)
from barograph.access.fields import rate_limit_fields
from barograph.badges.documents import BADGE_FOLDER
from barograph.errors import PrivateError
from barograph.feed.refusals import FeedUnavailable
from barograph.kit.timestamps import MINUTE
from barograph.markets.regime import EDGES_PCT, LABELS
from barograph.material_change.refusals import (
    ComparisonReferenceUnavailable,
    ComparisonUnavailable,
    InvalidComparisonReference,
)
from barograph.signals.catalog import METHODS
from barograph.signals.documents import SIGNALS_PATH
from barograph.site.frame.paths import (
    DEVELOPERS_PATH,
    HOME_PATH,
    MARKETS_PATH,
    SIGNALS_FOLDER,
    STATUS_PAGE,
)
from barograph.site.frame.writer import per
from barograph.stances.refusals import NoStance, StanceNotActive, StanceUnavailable

_EXAMPLE_NOW = 1_794_000_000_000
_EXAMPLE = Standing(ANONYMOUS, accepted=False, remaining=0, resets_in=2 * MINUTE)


class Limit(NamedTuple):
    """A row of the table of limits."""

    what: str
    allowance: str
    counted_by: str


class Field(NamedTuple):
    """A row of the table of rate-limit fields."""

    name: str
    example: str
    meaning: str


class Problem(NamedTuple):
    """A row of the table of errors of free endpoints."""

    status: int
    when: str
    retry: str


class CodedProblem(NamedTuple):
    """A row of the table of errors of entitled and paid endpoints."""

    status: int
    code: str
    when: str
    retry: str


class BadgeEntry(NamedTuple):
    """A badge of the gallery; `page` is where it leads to when it is pressed."""

    name: str
    path: str
    text: str
    page: str


class Band(NamedTuple):
    """A row of the table of regime bands."""

    label: str
    range: str


def limits() -> list[Limit]:
    """Every allowance."""
    return [
        Limit(f"{SIGNALS_PATH} without a key", per(ANONYMOUS), _ADDRESS),
        Limit(f"{SIGNALS_PATH} with a personal key", per(PERSONAL), "key"),
        Limit(f"{SIGNALS_PATH} with a key that is not valid", per(BAD_KEYS), _ADDRESS),
        Limit("Asking for a key", per(REGISTRATIONS), _ADDRESS),
        Limit("Links to one mailbox", per(MAILBOX), "mailbox"),
        Limit("Calls of MCP tools", per(TOOL_CALLS), _ADDRESS),
        Limit("Payment proofs", per(PROOFS), _ADDRESS),
        Limit("Every other free read", "none", "not counted"),
    ]


def fields() -> list[Field]:
    """The fields of an answer that is refused, as they are really made."""
    examples = {
        name.decode(): value.decode() for name, value in rate_limit_fields(_EXAMPLE, _EXAMPLE_NOW)
    }
    return [Field(name, examples[name.lower()], meaning) for name, meaning in _FIELDS.items()]


def badges() -> list[BadgeEntry]:
    """One badge of each kind, and every signal's."""
    signals = [
        BadgeEntry(
            method.name,
            f"{BADGE_FOLDER}signal/{method.key}.svg",
            "What the signal says.",
            f"{SIGNALS_FOLDER}{method.key}",
        )
        for method in METHODS
    ]
    return [*_BADGES, *signals]


def bands() -> list[Band]:
    """The labels of the regime and the funding that each stands for; outer ones own their edges."""
    low, *between, high = LABELS
    lowest, *_, highest = EDGES_PCT
    edges = zip(between, EDGES_PCT, EDGES_PCT[1:], strict=False)
    return [
        Band(low, f"{percent(lowest)} or less"),
        *(Band(label, f"{percent(start)} to {percent(end)}") for label, start, end in edges),
        Band(high, f"{percent(highest)} or more"),
        Band("unknown", "not known, or not read recently"),
    ]


def percent(value: float) -> str:
    """A rate with its sign and no more decimals than it needs: `+0.015 %`."""
    return f"{value:+g} %"


def _coded(error: type[PrivateError], when: str, retry: str) -> CodedProblem:
    return CodedProblem(error.status, error.code, when, retry)


_ADDRESS = "address (IPv6: /64)"
_FIELDS = {
    "RateLimit-Policy": "the allowance: its name, q requests in any w seconds",
    "RateLimit": "r requests are left; in t seconds the oldest one comes back",
    "X-RateLimit-Limit": "q again",
    "X-RateLimit-Remaining": "r again",
    "X-RateLimit-Reset": "when t seconds are over, as Unix time",
    "Retry-After": "only with 429: seconds until a request is accepted again",
}
ERRORS = [
    Problem(400, "the symbol or the body is malformed", "no: correct the request"),
    Problem(401, "the key is unknown or was revoked", "no: send no key, or ask for a new one"),
    Problem(404, "there is nothing at this path", "no"),
    Problem(405, "the path does not know this method", "no: the Allow field lists those it knows"),
    Problem(410, "a link for a key was used or is too old", "no: ask for a new link"),
    Problem(429, "the allowance is spent", "yes, after Retry-After seconds"),
    Problem(500, "briefs cannot be read, or a fault of ours", "yes, a few times, with pauses"),
    Problem(502, "fresh market data is not to be had", "yes, after some seconds, with pauses"),
    Problem(503, "it cannot be read or counted now", "yes, after Retry-After or some seconds"),
]
CODED_ERRORS: Sequence[CodedProblem] = [
    _coded(
        InvalidComparisonReference,
        "a parameter is missing, extra, repeated or malformed",
        "no: send exactly the seven parameters, each once and as it came",
    ),
    _coded(
        FeedIdentityRequired,
        "the token or proof does not verify, or its user has no confirmed address",
        "no: get a new token, or sign a new proof",
    ),
    _coded(
        FeedEntitlementRequired,
        "nobody paid, or the caller has no active Feed; Reserve alone is not enough",
        "no: look whether Feed is active, and do not pay again automatically",
    ),
    _coded(
        PaymentRequired,
        "one read of a stance: the body says what it costs",
        "no: pay for it or show a Feed identity; what was refused was not charged",
    ),
    _coded(
        ComparisonReferenceUnavailable,
        "the pair is not the latest two, or the latest has expired or was withdrawn",
        "no: read the current stance, and stop if it has no pair",
    ),
    _coded(FeedEntryClosed, "no credential came, and x402 is disabled here", "no"),
    _coded(NoStance, "no stance of this kind was issued yet", "no: /api/status says why"),
    _coded(
        StanceNotActive,
        "the newest stance has expired or was withdrawn; nothing was charged",
        "no: wait for the next one",
    ),
    CodedProblem(405, "method_not_allowed", "another method than GET", "no"),
    _coded(
        PaymentUsed,
        "this payment was charged before; nothing is asked for",
        "no: what it paid for was delivered, or waits where it was shown first",
    ),
    _coded(TooManyProofs, "too many proofs from one address", "yes, after Retry-After seconds"),
    _coded(
        PaymentPending,
        "what became of the payment is being found out",
        "yes, with the same proof after Retry-After seconds; never pay again",
    ),
    _coded(
        PaymentUnavailable,
        "payments cannot be verified; nothing was charged",
        "yes, after Retry-After seconds",
    ),
    *(
        _coded(error, "identity, entitlement or the history cannot be asked", "yes, later")
        for error in (ComparisonUnavailable, FeedUnavailable, StanceUnavailable)
    ),
]
_BADGES = [
    BadgeEntry(
        "paper record",
        f"{BADGE_FOLDER}record.svg",
        "Days since sinceDate of a legacy paper-strategy record: elapsed time, not observations "
        "or uninterrupted operation; continuity is unverified, and it is no evidence of "
        "live-capital results or of paid stance outcomes.",
        f"{DEVELOPERS_PATH}#badges",
    ),
    BadgeEntry("regime", f"{BADGE_FOLDER}regime.svg", "The regime of the market.", HOME_PATH),
    BadgeEntry(
        "BTC funding",
        f"{BADGE_FOLDER}funding/BTC.svg",
        "Funding of any live perpetual.",
        f"{MARKETS_PATH}/BTC",
    ),
    BadgeEntry(
        "status",
        f"{BADGE_FOLDER}status.svg",
        "Health of the feed and of this service.",
        STATUS_PAGE,
    ),
]

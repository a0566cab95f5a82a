"""What the developer page tells, taken from the code that it tells about (pure)."""

from typing import NamedTuple

from barograph.access.allowances import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    PERSONAL,
    REGISTRATIONS,
    Allowance,
    Standing,
)
from barograph.access.fields import rate_limit_fields
from barograph.badges.documents import BADGE_FOLDER
from barograph.briefs.documents import BRIEFS_PATH
from barograph.discovery.paths import INDEX_PATH, OPENAPI_PATH
from barograph.guides.documents import GUIDES_PATH
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.documents import DERIVATIVES_PATH, MARKET_PATH, MARKET_STATE_PATH
from barograph.markets.regime import EDGES_PCT, LABELS
from barograph.signals.catalog import METHODS
from barograph.signals.documents import SIGNALS_PATH
from barograph.status.endpoints import STATUS_PATH

ENDPOINTS = {
    MARKET_STATE_PATH: "the market in one answer: assets, liquidations, regime",
    MARKET_PATH: "BTC, ETH and SOL",
    f"{DERIVATIVES_PATH}?symbol=ETH": "any live perpetual",
    BRIEFS_PATH: "analysis written from the record, newest first",
    GUIDES_PATH: "the catalog of paid guides, with every price",
    SIGNALS_PATH: "regime signals",
    STATUS_PATH: "health of the feed and of this service",
    INDEX_PATH: "what there is to read",
    OPENAPI_PATH: "the interface description",
}

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
    """A row of the table of errors."""

    status: int
    when: str
    retry: str


class BadgeEntry(NamedTuple):
    """A row of the badge gallery."""

    name: str
    path: str
    text: str


class Band(NamedTuple):
    """A row of the table of regime bands."""

    label: str
    range: str


def limits() -> list[Limit]:
    """Every allowance."""
    return [
        Limit(f"{SIGNALS_PATH} without a key", _per(ANONYMOUS), _ADDRESS),
        Limit(f"{SIGNALS_PATH} with a personal key", _per(PERSONAL), "key"),
        Limit(f"{SIGNALS_PATH} with a key that is not valid", _per(BAD_KEYS), _ADDRESS),
        Limit("Asking for a key", _per(REGISTRATIONS), _ADDRESS),
        Limit("Links to one mailbox", _per(MAILBOX), "mailbox"),
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
        BadgeEntry(method.name, f"{BADGE_FOLDER}signal/{method.key}.svg", "what the signal says")
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


def _per(allowance: Allowance) -> str:
    unit = "hour" if allowance.window == HOUR else "day"
    return f"{allowance.requests:,} per {unit}"


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
    Problem(503, "keys cannot be handed out now", "yes, after Retry-After seconds if it is there"),
]
_BADGES = [
    BadgeEntry(
        "paper record",
        f"{BADGE_FOLDER}record.svg",
        "days since sinceDate of a legacy paper-strategy record: elapsed time, not observations "
        "or uninterrupted operation; continuity is unverified, and it is no evidence of "
        "live-capital results or of paid stance outcomes",
    ),
    BadgeEntry("regime", f"{BADGE_FOLDER}regime.svg", "the regime of the market"),
    BadgeEntry("BTC funding", f"{BADGE_FOLDER}funding/BTC.svg", "funding of any live perpetual"),
    BadgeEntry("status", f"{BADGE_FOLDER}status.svg", "health of the feed and of this service"),
]

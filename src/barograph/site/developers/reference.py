"""What the developer page tells, taken from the code that it tells about (pure)."""

from decimal import Decimal
from typing import NamedTuple

from barograph.badges.documents import BADGE_FOLDER
from barograph.entitlements.refusals import FEED_PATH
from barograph.kit.timestamps import MINUTE
from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    MCP_POSTS,
    PERSONAL,
    PROOFS,
    REGISTRATIONS,
    RENDERS,
    TOOL_CALLS,
    Usage,
    rate_limit_fields,
)
from barograph.markets.regime import EDGES_PCT, LABELS
from barograph.signals.documents import SIGNALS_PATH
from barograph.signals.methods import METHODS
from barograph.site.frame.paths import (
    DEVELOPERS_PATH,
    HOME_PATH,
    MARKETS_FOLDER,
    SIGNALS_FOLDER,
    STATUS_PAGE,
)
from barograph.site.frame.writer import Terms, per
from barograph.stances.documents import STANCE_PATHS

SECTIONS = {
    "base-address": "At a glance",
    "first-call": "First call",
    "endpoints": "Endpoints",
    "limits": "Limits",
    "get-a-key": "Get a key",
    "send-a-key": "Send a key",
    "errors": "Errors",
    "badges": "Badges",
    "mcp": "Model Context Protocol",
    "gpt": "GPT actions",
    "agents": "Texts for agents",
    "feed": "For Feed subscribers",
    "x402": "Paying by x402",
    "client": "Client and terminal",
    "regime": "Regime bands",
    "signals": "Signals",
    "versioning": "Versions and deprecation",
    "changelog": "Changelog",
}
"""The parts of the page, by their anchor."""

_EXAMPLE_NOW = 1_794_000_000_000
_EXAMPLE = Usage(ANONYMOUS, accepted=False, remaining=0, resets_in=2 * MINUTE)


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


class Sale(NamedTuple):
    """What can be paid for by x402, where, and for how many USD."""

    what: str
    path: str
    price: Decimal


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


def sales(terms: Terms) -> list[Sale]:
    """Everything that these terms ask for by x402."""
    if not terms.takes_payments:
        return []
    stances = [
        Sale(f"{kind} once, without Feed", path, terms.stance_price)
        for kind, path in STANCE_PATHS.items()
    ]
    return [Sale(f"Feed for {terms.feed_period_days} days", FEED_PATH, terms.feed_price), *stances]


def limits() -> list[Limit]:
    """Every allowance."""
    return [
        Limit(f"{SIGNALS_PATH} without a key", per(ANONYMOUS), _ADDRESS),
        Limit(f"{SIGNALS_PATH} with a personal key", per(PERSONAL), "key"),
        Limit(f"{SIGNALS_PATH} with a key that is not valid", per(BAD_KEYS), _ADDRESS),
        Limit("Asking for a key", per(REGISTRATIONS), _ADDRESS),
        Limit("Links to one mailbox", per(MAILBOX), "mailbox"),
        Limit("Calls of MCP tools", per(TOOL_CALLS), _ADDRESS),
        Limit("Requests to the MCP server", per(MCP_POSTS), _ADDRESS),
        Limit("Payment proofs", per(PROOFS), _ADDRESS),
        Limit("Uncached pages and downloads, and history proofs", per(RENDERS), _ADDRESS),
        Limit("Every other free read", "none", "not counted"),
    ]


def fields() -> list[Field]:
    """The fields of an answer that is refused, as they are really made."""
    examples = {
        name.decode(): value.decode() for name, value in rate_limit_fields(_EXAMPLE, _EXAMPLE_NOW)
    }
    return [Field(name, examples[name.lower()], meaning) for name, meaning in _FIELDS.items()]


def signal_badges() -> list[BadgeEntry]:
    """The badge of every signal."""
    return [
        BadgeEntry(
            method.name,
            f"{BADGE_FOLDER}signal/{method.key}.svg",
            "The label that the signal has now.",
            f"{SIGNALS_FOLDER}{method.key}",
        )
        for method in METHODS
    ]


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


_ADDRESS = "address (IPv6: /64)"
_FIELDS = {
    "RateLimit-Policy": "the allowance: its name, q requests in any w seconds",
    "RateLimit": "r requests are left; in t seconds the oldest one comes back",
    "X-RateLimit-Limit": "q again",
    "X-RateLimit-Remaining": "r again",
    "X-RateLimit-Reset": "when t seconds are over, as Unix time",
    "Retry-After": "only with 429: seconds until a request is accepted again",
}
BADGES = [
    BadgeEntry(
        "regime",
        f"{BADGE_FOLDER}regime.svg",
        "The regime of the market, by the funding of the BTC perpetual.",
        HOME_PATH,
    ),
    BadgeEntry(
        "BTC funding",
        f"{BADGE_FOLDER}funding/BTC.svg",
        "The funding rate of a perpetual with its interval; another symbol in place of BTC for any "
        "other.",
        f"{MARKETS_FOLDER}BTC",
    ),
    BadgeEntry(
        "status",
        f"{BADGE_FOLDER}status.svg",
        "Whether the feed and this service work as they should.",
        STATUS_PAGE,
    ),
    BadgeEntry(
        "paper record",
        f"{BADGE_FOLDER}record.svg",
        "Days since sinceDate of a legacy paper-strategy record, or “not started” where the "
        "operator named no start: elapsed time, not observations or uninterrupted operation; "
        "continuity is unverified, and it is no evidence of live-capital results or of paid stance "
        "outcomes.",
        f"{DEVELOPERS_PATH}#badges",
    ),
]
"""One badge of each kind but the signals', those first that say something everywhere."""

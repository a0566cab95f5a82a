"""Every request that the clients can send, as data.

Both clients have a method for each function here and send the request that it describes.
"""

from typing import Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from barograph_client.records import (
    Briefs,
    Comparison,
    Derivatives,
    FeedNow,
    Guides,
    Index,
    Market,
    MarketState,
    Reference,
    Signals,
    Stance,
    Status,
)

T = TypeVar("T")

Credential = Literal["none", "key", "feed", "token"]
"""Which credential a request carries: none, the API key, token or proof, or the token only."""

STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}


class Call(NamedTuple, Generic[T]):
    """One read: its address, the type of the answer and the credential."""

    target: str
    """Path and query."""

    answer: type[T]
    credential: Credential = "none"

    @property
    def is_private(self) -> bool:
        """Whether the answer is private: the client then neither caches nor retries it."""
        return self.credential in {"feed", "token"}


def index() -> Call[Index]:
    """The list of free endpoints."""
    return Call("/api/agent", Index)


def briefs(limit: int | None = None) -> Call[Briefs]:
    """The newest briefs, newest first: 1 to 50, by default 15."""
    return Call(_target("/api/agent/briefs", limit=limit), Briefs)


def derivatives(symbol: str = "BTC") -> Call[Derivatives]:
    """Price, funding, open interest and positioning of one perpetual."""
    return Call(_target("/api/agent/derivatives", symbol=symbol), Derivatives)


def market() -> Call[Market]:
    """The funding and price snapshot of BTC, ETH and SOL."""
    return Call("/api/agent/market", Market)


def market_state() -> Call[MarketState]:
    """Assets, 24-hour liquidations and the regime."""
    return Call("/api/agent/market-state", MarketState)


def guides() -> Call[Guides]:
    """The catalog of paid guides."""
    return Call("/api/agent/guides", Guides)


def signals() -> Call[Signals]:
    """The regime signals. Each read counts against the rate limit, even a 304."""
    return Call("/api/v1/signals", Signals, "key")


def status() -> Call[Status]:
    """The state of the market feed and the API."""
    return Call("/api/status", Status)


def feed_now() -> Call[FeedNow]:
    """The stance tape, the market state and the newest briefs, with Feed."""
    return Call("/api/feed/now", FeedNow, "feed")


def stance(kind: str) -> Call[Stance]:
    """The newest stance of a kind, with a Feed token.

    The client never sends a payment proof here, because the service could charge it.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in STANCE_PATHS:
        raise ValueError(f"unknown kind {kind!r}: choose one of {', '.join(STANCE_PATHS)}")
    return Call(STANCE_PATHS[kind], Stance, "token")


def material_change(kind: str, before: Reference, after: Reference) -> Call[Comparison]:
    """The comparison of the latest two recorded versions of a kind, with Feed."""
    target = _target(
        "/api/agents/material-change",
        kind=kind,
        before_leg=before.leg_id,
        before_revision=before.revision,
        before_digest=before.history_digest,
        after_leg=after.leg_id,
        after_revision=after.revision,
        after_digest=after.history_digest,
    )
    return Call(target, Comparison, "feed")


def _target(path: str, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote, safe='')}" if given else path

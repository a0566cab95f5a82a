"""Everything that can be asked, as plain descriptions of requests (pure).

Each function here is a method of both clients, which send what it describes.
"""

from typing import Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from barograph.client.wire import (
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
"""What goes with a request: nothing, the API key, whatever shows Feed, or the token alone."""

STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}


class Call(NamedTuple, Generic[T]):
    """One read: where, what comes back, and which credential goes with it."""

    target: str
    """Path and query."""

    answer: type[T]
    credential: Credential = "none"

    @property
    def is_private(self) -> bool:
        """Whether only its caller may see it: then it is never kept, and never sent twice."""
        return self.credential in {"feed", "token"}


def index() -> Call[Index]:
    """What there is to read."""
    return Call("/api/agent", Index)


def briefs(limit: int | None = None) -> Call[Briefs]:
    """The newest briefs, newest first: 1 to 50, and 15 when nothing is said."""
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
    """The regime signals; each read counts, also one that was not modified."""
    return Call("/api/v1/signals", Signals, "key")


def status() -> Call[Status]:
    """How the market feed and the API are."""
    return Call("/api/status", Status)


def feed_now() -> Call[FeedNow]:
    """The stance tape, the market state and the newest briefs, with Feed."""
    return Call("/api/feed/now", FeedNow, "feed")


def stance(kind: str) -> Call[Stance]:
    """The newest stance of a kind, with the token of somebody who has Feed.

    A payment proof is never sent there, because it could be charged.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in STANCE_PATHS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(STANCE_PATHS)}")
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

"""The facts about the market that are fresh at one instant, and the feeds they come from (pure)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barograph.board.feeds import Feed
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.last_known import LastKnown
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.regime import Regime
from barograph.markets.settlements import SettledWindows
from barograph.markets.symbols import ContractIndex
from barograph.venues.records import (
    BackfillProgress,
    ExchangeHealth,
    Frame,
    LongAccounts,
    LongAccountShares,
    Perpetuals,
)
from barograph.venues.registry import BYBIT, publishes_liquidations, publishes_long_accounts

UNAVAILABLE = "unavailable while this venue is in use"


LONG_ACCOUNTS_MAX_AGE = 30 * MINUTE


class FreshnessLimits(NamedTuple):
    """How old each kind of data may be, in milliseconds, and how complete it must be."""

    perpetuals: int
    long_accounts: int = LONG_ACCOUNTS_MAX_AGE
    liquidations: int = 90 * SECOND
    min_coverage_pct: float = 95.0
    """The share of the last 24 hours that must be covered for sums of liquidations."""

    primary: str = BYBIT
    """The venue whose totals of liquidations and long-account shares are published. Those of
    another venue don't take their place."""


class MarketView(NamedTuple):
    """The facts that are fresh at `now`."""

    now: int
    limits: FreshnessLimits
    perpetuals: Perpetuals
    by_name: ContractIndex
    shares: Mapping[str, LongAccounts]
    """Long-account shares by full name, of any age; `share` returns only fresh ones."""

    watched: LiquidationTotals | None
    """Liquidations, however little of the 24 hours we watched; None when stale."""

    regime: Regime | None
    day_ago: Frame | None = None
    """What 24-hour changes compare with."""

    disputed: Sequence[str] = ()
    """The measures of the venue that contradict the other venues."""

    @property
    def lacks_liquidations(self) -> bool:
        """Whether there is no total of liquidations at this venue, which is no failure."""
        return not publishes_liquidations(self.perpetuals.venue, self.limits.primary)

    @property
    def lacks_long_accounts(self) -> bool:
        """Whether there are no long-account shares at this venue."""
        return not publishes_long_accounts(self.perpetuals.venue, self.limits.primary)

    @property
    def until(self) -> int:
        """When the market feed reaches its freshness limit."""
        return self.perpetuals.as_of + self.limits.perpetuals

    @property
    def liquidations(self) -> LiquidationTotals | None:
        """None when stale, when we watched too little of the 24 hours, or without a total."""
        known, lowest = self.watched, self.limits.min_coverage_pct
        if known is None or known.watched_pct < lowest or self.lacks_liquidations:
            return None
        return known

    @property
    def liquidations_until(self) -> int:
        """When the market feed or the liquidations reach their freshness limit."""
        if self.watched is None:
            return self.until
        return min(self.until, self.watched.as_of + self.limits.liquidations)

    def share(self, contract: str) -> LongAccounts | None:
        """The long-account share of a contract, if it is fresh."""
        share = None if self.lacks_long_accounts else self.shares.get(contract)
        if share is None or not is_fresh(share.sampled_at, self.limits.long_accounts, self.now):
            return None
        return share


def is_fresh(as_of: int, limit: int, now: int) -> bool:
    """Whether data may be shown; a timestamp far in the future is a wrong clock, not freshness."""
    return -limit <= now - as_of < limit


PERPETUALS = Feed("perpetuals", Perpetuals)
LONG_ACCOUNTS = Feed("long-accounts", LongAccountShares)
LIQUIDATIONS = Feed("liquidations", LiquidationTotals)
REGIME = Feed("regime", Regime)
EXCHANGE_HEALTH = Feed("exchange-health", ExchangeHealth)
BACKFILL = Feed("backfill", BackfillProgress)
OLDER_SAMPLES = Feed("older-samples", BackfillProgress)
"""Published only by a demo, which adds samples of its simulated past while it serves."""

DAY_AGO = Feed("day-ago", Frame)
SETTLED = Feed("settled", SettledWindows)
LAST_KNOWN = Feed("last-known", LastKnown)
"""Every venue publishes to its own: `SETTLED.of(venue)`."""

VENUE_FEEDS: tuple[Feed[Any], ...] = (
    PERPETUALS,
    LONG_ACCOUNTS,
    LIQUIDATIONS,
    REGIME,
    EXCHANGE_HEALTH,
    BACKFILL,
    DAY_AGO,
)
"""The venue in use publishes to these. Every other venue publishes to its own: `feed.of(venue)`."""

FEEDS = (*VENUE_FEEDS, VENUE_IN_USE)


def feeds_of(venues: Sequence[str]) -> list[Feed[Any]]:
    """Every feed of an instance that reads these venues."""
    by_venue = (*VENUE_FEEDS, SETTLED, LAST_KNOWN)
    return [*FEEDS, OLDER_SAMPLES, *(feed.of(venue) for venue in venues for feed in by_venue)]

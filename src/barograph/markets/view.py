"""The facts about the market that are fresh at one instant, and the feeds they come from (pure)."""

from collections.abc import Mapping
from typing import NamedTuple

from barograph.board.feeds import Feed
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import (
    BackfillProgress,
    DayAgo,
    ExchangeHealth,
    LongAccounts,
    LongAccountShares,
    Perpetuals,
)
from barograph.markets.regime import Regime
from barograph.markets.symbols import ContractIndex


class FreshnessLimits(NamedTuple):
    """How old each kind of data may be, in milliseconds, and how complete it must be."""

    perpetuals: int
    long_accounts: int
    liquidations: int
    min_coverage_pct: float


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
    day_ago: DayAgo | None = None

    @property
    def until(self) -> int:
        """When the market feed reaches its freshness limit."""
        return self.perpetuals.as_of + self.limits.perpetuals

    @property
    def liquidations(self) -> LiquidationTotals | None:
        """None when stale, or when we watched too little of the 24 hours."""
        known, lowest = self.watched, self.limits.min_coverage_pct
        return None if known is None or known.watched_pct < lowest else known

    @property
    def liquidations_until(self) -> int:
        """When the market feed or the liquidations reach their freshness limit."""
        if self.watched is None:
            return self.until
        return min(self.until, self.watched.as_of + self.limits.liquidations)

    def share(self, contract: str) -> LongAccounts | None:
        """The long-account share of a contract, if it is fresh."""
        share = self.shares.get(contract)
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
DAY_AGO = Feed("day-ago", DayAgo)
FEEDS = (PERPETUALS, LONG_ACCOUNTS, LIQUIDATIONS, REGIME, EXCHANGE_HEALTH, BACKFILL, DAY_AGO)

"""The feeds that the collector publishes about perpetuals, and how old each may be."""

from typing import NamedTuple

from msgspec import Struct

from barograph.board.snapshots import Feed
from barograph.kit.clock import SECOND
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import LongAccounts, Perpetuals
from barograph.markets.regime import Regime
from barograph.settings import Settings


class LongAccountShares(Struct, frozen=True):
    """The newest long-account share of every contract that was sampled."""

    shares: dict[str, LongAccounts]


class ExchangeHealth(Struct, frozen=True):
    """How the last attempt to read the exchange went; also the collector's sign of life."""

    as_of: int
    failure: str | None = None
    """The kind of failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None


PERPETUALS = Feed("perpetuals", Perpetuals)
LONG_ACCOUNTS = Feed("long-accounts", LongAccountShares)
LIQUIDATIONS = Feed("liquidations", LiquidationTotals)
REGIME = Feed("regime", Regime)
EXCHANGE_HEALTH = Feed("exchange-health", ExchangeHealth)
FEEDS = (PERPETUALS, LONG_ACCOUNTS, LIQUIDATIONS, REGIME, EXCHANGE_HEALTH)


class Bounds(NamedTuple):
    """How old each kind of data may be, in milliseconds, and how complete it must be."""

    perpetuals: int
    long_accounts: int
    liquidations: int
    min_coverage_pct: float

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        """Read the bounds from the settings."""
        return cls(
            perpetuals=int(settings.feed_max_age_seconds * SECOND),
            long_accounts=int(settings.long_accounts_max_age_seconds * SECOND),
            liquidations=int(settings.liquidations_max_age_seconds * SECOND),
            min_coverage_pct=settings.liquidations_min_coverage_pct,
        )

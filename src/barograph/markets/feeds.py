"""The feeds that the collector publishes about perpetuals."""

from msgspec import Struct

from barograph.board.snapshots import Feed
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import LongAccounts, Perpetuals
from barograph.markets.regime import Regime


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

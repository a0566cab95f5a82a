"""The feeds that the collector publishes about perpetuals."""

from barograph.board.snapshots import Feed
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import ExchangeHealth, LongAccountShares, Perpetuals
from barograph.markets.regime import Regime

PERPETUALS = Feed("perpetuals", Perpetuals)
LONG_ACCOUNTS = Feed("long-accounts", LongAccountShares)
LIQUIDATIONS = Feed("liquidations", LiquidationTotals)
REGIME = Feed("regime", Regime)
EXCHANGE_HEALTH = Feed("exchange-health", ExchangeHealth)
FEEDS = (PERPETUALS, LONG_ACCOUNTS, LIQUIDATIONS, REGIME, EXCHANGE_HEALTH)

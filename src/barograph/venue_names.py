"""The venues that this version can read, each a folder of `barograph.venues`."""

from typing import Final

VENUE_NAMES: Final = ("bybit", "hyperliquid", "binance", "gate", "aster")

"""Hyperliquid's public data: keyless readings and the history of prices and settlements."""

from barograph.upstream.hyperliquid.exchange import HyperliquidExchange

__all__ = ["HyperliquidExchange"]

"""Bybit v5 public market data: keyless REST readings and the liquidation stream."""

from barograph.upstream.bybit.exchange import BybitExchange

__all__ = ["BybitExchange"]

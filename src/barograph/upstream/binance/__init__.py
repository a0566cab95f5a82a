"""Binance USDⓈ-M public market data: keyless REST readings and the liquidation stream."""

from barograph.upstream.binance.exchange import BinanceExchange

__all__ = ["BinanceExchange"]

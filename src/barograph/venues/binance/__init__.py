"""Binance USDⓈ-M public market data: keyless REST readings and the liquidation stream."""

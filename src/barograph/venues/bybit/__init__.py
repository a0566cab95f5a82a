"""Bybit v5 public market data: keyless REST readings and the liquidation stream."""

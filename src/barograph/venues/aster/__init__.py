"""Aster's public market data, in Binance's wire format."""

"""Hyperliquid's public data of the perpetuals that it lists itself."""

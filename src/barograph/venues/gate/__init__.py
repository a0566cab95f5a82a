"""Gate's public data of USDT perpetuals."""

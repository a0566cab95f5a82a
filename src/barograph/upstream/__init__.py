"""Where data comes from: one folder for each exchange, each an adapter of `markets.exchange`."""

"""ETF flows and rates: daily series from public sources, kept with every revision."""

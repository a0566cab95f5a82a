"""ETF flows and interest rates: daily series from public sources, stored with every revision."""

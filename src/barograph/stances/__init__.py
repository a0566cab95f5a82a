"""Stances: decisions made from evidence, one kind each for ETF flows, rates and funding."""

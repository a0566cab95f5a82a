"""Regime signals: what the record says about the market, in one word each."""

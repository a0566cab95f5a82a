"""Payments by x402 v2: exact, once, and never without a row in the journal."""

"""Perpetual futures: what was measured, how it is judged and how it is published."""

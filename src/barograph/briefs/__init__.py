"""Briefs: short analysis, written by rules from the record or by the operator."""

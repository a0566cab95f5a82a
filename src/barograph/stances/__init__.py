"""Stances: what was concluded from the evidence, in a history that cannot be rewritten."""

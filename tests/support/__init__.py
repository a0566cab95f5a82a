"""Helpers for tests: the production parts with other inputs passed in."""

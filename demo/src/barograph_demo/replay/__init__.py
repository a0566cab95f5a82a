"""Fills a demo's databases with its simulated past."""

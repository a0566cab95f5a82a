"""Fills a demo's database with its simulated past."""

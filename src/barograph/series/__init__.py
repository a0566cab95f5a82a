"""Recorded series of every measure, by pages or as one table."""

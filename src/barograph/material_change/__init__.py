"""Compares the latest two recorded versions of a stance, for Feed subscribers."""

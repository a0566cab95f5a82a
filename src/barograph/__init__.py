"""Barograph: crypto market intelligence that is measured, recorded and published."""

__version__ = "0.1.0"

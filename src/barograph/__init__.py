"""Barograph: crypto market intelligence that is measured, recorded and published."""

__version__ = "1.0.0"

SITE_NAME = "Barograph"
NOTICE = "Information only, not financial advice."
"""The sentence that every published answer carries."""

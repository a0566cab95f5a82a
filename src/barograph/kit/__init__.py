"""Tools without product words."""

"""What was measured, for charts and to download."""

"""What the leading collector repeats besides measuring."""

"""What signals say and said."""

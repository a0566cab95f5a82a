"""What every page shares: how it is written, sent and kept."""

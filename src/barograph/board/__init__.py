"""The latest snapshot of every feed: written by the collector, read from memory by the web."""

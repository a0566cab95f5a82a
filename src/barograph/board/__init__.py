"""The latest snapshot of every feed: the collector publishes it, the web serves it from memory."""

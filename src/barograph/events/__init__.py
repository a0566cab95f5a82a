"""The log of what changed: written by the collector, read by pages, streams, webhooks and feeds."""

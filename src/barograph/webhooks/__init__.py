"""Webhooks: events from the log, sent to the endpoints that key owners registered."""

"""Alerts: rules that owners of personal keys write, and the messages that these cause."""

"""An outsider's audit of a service's public logs, using only what the service serves."""

"""How to use the service by program."""

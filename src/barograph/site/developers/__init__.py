"""The developer page and the API reference."""

"""The home page: the market at a glance."""

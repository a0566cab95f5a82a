"""`/api/status`: the health of the market feed and of the API."""

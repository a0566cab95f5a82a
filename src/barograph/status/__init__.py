"""The health of the market feed and of the API: `/api/status`, incidents and uptime."""

"""Feed: `/api/feed/now` and the purchase of Feed."""

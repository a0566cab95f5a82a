"""`/api/feed/now`: everything that Feed opens, at a glance."""

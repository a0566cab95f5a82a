"""The catalog of paid trading guides: local, whole, with every price disclosed."""

"""The catalog of paid trading guides, with every price."""

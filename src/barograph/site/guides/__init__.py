"""The catalog of guides, and a page for each."""

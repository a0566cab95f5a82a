"""The list of briefs, and a page for each."""

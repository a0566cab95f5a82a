"""Every perpetual, and a page for each."""

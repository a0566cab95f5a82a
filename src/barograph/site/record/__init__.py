"""The public history, and how anyone checks it."""

"""What the adapters of all venues share: calls, lists of contracts, history pages and streams."""

"""The terms of the data sources, and which of them the operator has confirmed."""

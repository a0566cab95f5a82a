"""The simulated world: prices, funding, liquidations and daily figures."""

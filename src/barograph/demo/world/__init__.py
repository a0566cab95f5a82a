"""What happens in the simulated world: prices, funding, liquidations and daily figures."""

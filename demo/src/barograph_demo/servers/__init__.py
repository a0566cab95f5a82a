"""Servers of the simulated world, which speak the real protocols on loopback."""

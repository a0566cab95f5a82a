"""Rate limits: who calls, and how often they may."""

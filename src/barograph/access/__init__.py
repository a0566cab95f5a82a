"""Who calls, and how often they may."""

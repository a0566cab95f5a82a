"""Bearer tokens: how they are verified, and whom they identify."""

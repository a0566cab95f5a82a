"""Bearer tokens: verification, and the users that they identify."""

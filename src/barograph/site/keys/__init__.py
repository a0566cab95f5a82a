"""Personal keys: asked for, and shown once."""

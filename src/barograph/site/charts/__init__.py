"""Charts as SVG, drawn on the server (pure)."""

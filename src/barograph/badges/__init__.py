"""Live badges: small SVG images of single facts, for READMEs and other websites."""

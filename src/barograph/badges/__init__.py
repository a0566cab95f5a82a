"""Small pictures of single facts, for READMEs and pages of others."""

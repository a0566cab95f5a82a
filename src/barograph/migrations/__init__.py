"""Numbered SQL files; `kit.migrations` applies them."""

"""The feed about the sources of daily figures."""

from barograph.board.snapshots import Feed
from barograph.macro.health import MacroHealth

MACRO_HEALTH = Feed("macro-health", MacroHealth)

"""The feed that the collector publishes about signals."""

from barograph.board.snapshots import Feed
from barograph.signals.records import Signals

SIGNALS = Feed("signals", Signals)

"""The feed of the stances that stand now, for whoever may read them."""

from barograph.board.snapshots import Feed
from barograph.stances.standing import Stances

STANCES = Feed("stances", Stances)

"""The feed of the newest briefs."""

from barograph.board.snapshots import Feed
from barograph.briefs.records import Briefs

BRIEFS = Feed("briefs", Briefs)

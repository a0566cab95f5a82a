"""Reads what charts mark: regime changes and briefs."""

import json
from typing import NamedTuple

from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY
from barograph.markets.samples import DAYS
from barograph.site.charts.events import REGIME_OF, ChartEvent
from barograph.site.paths import BRIEFS_FOLDER, SIGNALS_FOLDER

MOST = 500
"""How many regime changes and how many briefs are read, newest first."""


class MarkedBrief(NamedTuple):
    """A brief, and what decides which charts mark it."""

    event: ChartEvent
    category: str
    coins: tuple[str, ...]


class RecordedEvents(NamedTuple):
    """Everything that charts of one venue may mark."""

    regimes: tuple[ChartEvent, ...]
    briefs: tuple[MarkedBrief, ...]

    def about(self, coin: str) -> list[ChartEvent]:
        """The events of one coin; a regime change that has a brief is not marked twice."""
        briefs = [each.event for each in self.briefs if coin in each.coins]
        if coin != REGIME_OF:
            return briefs
        written = {each.at for each in briefs}
        return [*briefs, *(each for each in self.regimes if each.at not in written)]

    def in_category(self, category: str) -> list[ChartEvent]:
        """The briefs of one category."""
        return [each.event for each in self.briefs if each.category == category]


async def recorded_events(tx: Transaction, venue: str, now: int) -> RecordedEvents:
    """The regime changes at a venue and the briefs of the longest period that charts show."""
    since = now - (max(DAYS) + 1) * DAY
    changes = await tx.fetch(_REGIMES, venue, since, MOST)
    briefs = await tx.fetch(_BRIEFS, since, MOST)
    page = f"{SIGNALS_FOLDER}btc-funding-regime"
    return RecordedEvents(
        tuple(ChartEvent(at, f"regime {label}", page) for at, label in changes),
        tuple(
            MarkedBrief(
                ChartEvent(at, headline, BRIEFS_FOLDER + path), category, tuple(json.loads(coins))
            )
            for path, at, category, headline, coins in briefs
        ),
    )


_REGIMES = """
SELECT at, label FROM regime_changes
WHERE venue = $1 AND at >= $2 AND origin = 'measured' ORDER BY at DESC LIMIT $3
"""
# The path of an earlier text of a brief ends in its version.
_BRIEFS = """
SELECT slug, published_at, category, headline, coins FROM briefs WHERE published_at >= $1
UNION ALL SELECT slug || '/' || version, published_at, category, headline, coins
FROM brief_versions WHERE published_at >= $1
ORDER BY published_at DESC LIMIT $2
"""

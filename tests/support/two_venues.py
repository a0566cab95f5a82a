"""Bybit in use, and Hyperliquid on standby."""

from typing import Any

from barograph.board.feeds import Publication
from barograph.markets.failover import VENUE_IN_USE, VenueInUse
from barograph.markets.settlements import SHORTEST_WINDOW, SettledSums, SettledWindows
from barograph.markets.view import PERPETUALS, SETTLED
from barograph.venues.records import Perpetual, Perpetuals
from support.clock import START
from support.markets import BTC, ETH, SOURCE, changed

SETTLED_TO = START // SHORTEST_WINDOW * SHORTEST_WINDOW
BYBIT_IN_USE = Publication.of(VENUE_IN_USE, VenueInUse("bybit", START))


def own(contract: Perpetual, **fields: Any) -> Perpetual:
    """A contract as Hyperliquid lists it."""
    name = contract.base.replace("1000", "k")
    kind = {"funding_interval_hours": 1.0, "quote": "USD", "price_kind": "mark"}
    return changed(contract, contract=name, base=name, **kind, **fields)


OTHER = (own(BTC, open_interest_usd=1e9), own(ETH, last_price=9_999.0))
"""Hyperliquid's ETH is another asset."""


def bybit(*contracts: Perpetual, as_of: int = START) -> Publication:
    """What Bybit lists."""
    return Publication.of(PERPETUALS, Perpetuals(as_of, SOURCE, contracts))


def hyperliquid(*contracts: Perpetual, as_of: int = START) -> Publication:
    """What Hyperliquid lists."""
    reading = Perpetuals(as_of, "other source", contracts or OTHER, venue="hyperliquid")
    return Publication.of(PERPETUALS.of("hyperliquid"), reading)


def settled(venue: str, **pct: Any) -> Publication:
    """What contracts of a venue settled over 8 hours, or also over longer windows."""
    sums: dict[str, tuple[SettledSums, ...]] = {
        name: (SettledSums(SETTLED_TO, *(each if isinstance(each, tuple) else (each,))),)
        for name, each in pct.items()
    }
    return Publication.of(SETTLED.of(venue), SettledWindows(sums))

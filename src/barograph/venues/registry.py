"""The venues that can be read (pure). A venue's name keys everything that is recorded from it."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from barograph.errors import NotFound
from barograph.venue_names import VENUE_NAMES
from barograph.venues.facts import Venue

BYBIT: Final = "bybit"
HYPERLIQUID: Final = "hyperliquid"
BINANCE: Final = "binance"


def _facts_of(name: str) -> Venue:
    venue = getattr(import_module(f"barograph.venues.{name}.facts"), "VENUE", None)
    if not isinstance(venue, Venue) or venue.name != name:
        raise TypeError(f"venues/{name}/facts.py needs a VENUE of the class Venue named {name!r}")
    return venue


VENUES: Final[Mapping[str, Venue]] = {name: _facts_of(name) for name in VENUE_NAMES}
"""Imported by name, so that a new venue needs no line here. The facts import no adapter."""


class NotRead(NamedTuple):
    """A large venue that this version doesn't read, and why."""

    venue: str
    title: str
    reason: str


NOT_READ: Final = (
    NotRead(
        "bitget",
        "Bitget",
        "It does not document which sides its open interest counts, so totals could be too large.",
    ),
    NotRead("okx", "OKX", "Its terms forbid publishing its data without its written consent."),
)
"""A venue that is added leaves this list."""


def publishes_liquidations(venue: str, primary: str) -> bool:
    """Whether there are totals of liquidations while a venue is in use; they don't fail over."""
    return venue == primary and VENUES[venue].liquidations == "all"


def publishes_long_accounts(venue: str, primary: str) -> bool:
    """Whether there are long-account shares while a venue is in use; they don't fail over."""
    return venue == primary and VENUES[venue].has_long_accounts


def first_with_liquidations(venues: Sequence[str]) -> str:
    """The first venue that publishes every liquidation; else one that publishes some, else any."""
    order = ("all", "largest per second", "incomplete", "none")
    return min(venues, key=lambda venue: order.index(VENUES[venue].liquidations))


def liquidation_venue(given: Mapping[str, str], venues: Sequence[str]) -> str:
    """The venue of a request, of those that an instance reads; by default the first.

    Raises:
        NotFound: it publishes no liquidations, or this instance doesn't read it.
    """
    known = [name for name in venues if VENUES[name].liquidations != "none"]
    venue = given.get("venue", venues[0])
    if venue in known:
        return venue
    if not known:
        raise NotFound("this instance reads no venue that publishes liquidations")
    problem = f"{venue} publishes no liquidations" if venue in venues else "unknown venue"
    raise NotFound(f"{problem}; choose one of {', '.join(known)}")


SIMULATED: Final = "simulated"


def source_of(venue: str, bybit_source: str) -> str:
    """The text of a venue's published `source`; `bybit_source` is that of Bybit."""
    known = VENUES[venue]
    if venue == BYBIT:
        return bybit_source
    if not bybit_source.startswith(SIMULATED):
        return known.source
    kind = "" if known.price_kind == "last" else f", {known.price_kind} prices"
    return f"{SIMULATED} {known.title} (demo data{kind})"


def coin_of(venue: str, base: str) -> tuple[str, int]:
    """The coin of a base asset at a venue, and how many coins its price and sizes are for."""
    return VENUES[venue].coin_of(base)

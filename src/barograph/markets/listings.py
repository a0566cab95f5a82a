"""Which contracts are listed, and when one was listed or delisted (pure)."""

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.events.records import EventType, NewEvent
from barograph.kit.timestamps import MINUTE, iso_timestamp
from barograph.markets.records import Perpetuals

DELISTED_AFTER = MINUTE
"""How long a contract must be missing from every reading before it counts as delisted."""


class Listings(Struct, frozen=True):
    """The listed contracts, including those that have been missing for a short time."""

    bases: dict[str, str]
    """The base asset of each contract by its full name."""

    missing: dict[str, int] = {}
    """When each missing contract was first missing."""


def next_listings(before: Listings | None, reading: Perpetuals) -> tuple[Listings, list[NewEvent]]:
    """The listings after a reading, and what changed; the first reading changes nothing.

    A contract whose values were out of range is still listed.
    """
    at, bases = reading.as_of, {each.contract: each.base for each in reading.contracts}
    if before is None:
        return Listings(bases), []
    refused = {name for names in reading.refused.values() for name in names}
    gone = before.bases.keys() - bases.keys() - refused
    missing = {name: before.missing.get(name, at) for name in sorted(gone)}
    delisted = [name for name, since in missing.items() if at - since >= DELISTED_AFTER]
    known, new = before.bases | bases, sorted(bases.keys() - before.bases.keys())
    venue = reading.venue
    events = [
        *(_event("contract.listed", venue, at, (name, known[name])) for name in new),
        *(
            _event("contract.delisted", venue, at, (name, known[name]), missing[name])
            for name in delisted
        ),
    ]
    for name in delisted:
        del known[name], missing[name]
    return Listings(known, missing), events


def _event(
    kind: EventType, venue: str, at: int, names: tuple[str, str], missing: int | None = None
) -> NewEvent:
    contract, base = names
    members = {"venue": venue, "symbol": base, "contract": contract}
    if missing is None:
        return NewEvent(kind, at, f"{venue}/{contract}/{at}", {**members})
    since = iso_timestamp(missing)
    return NewEvent(kind, at, f"{venue}/{contract}/{missing}", {**members, "missing_since": since})


LISTINGS = Feed("listings", Listings)

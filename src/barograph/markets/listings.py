"""Which contracts are listed, and when one was listed or delisted (pure)."""

from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.kit.timestamps import MINUTE
from barograph.markets.records import Perpetuals

DELISTED_AFTER = MINUTE
"""How long a contract must be missing from every reading before it counts as delisted."""


class Listings(Struct, frozen=True):
    """The listed contracts, including those that have been missing for a short time."""

    bases: dict[str, str]
    """The base asset of each contract by its full name."""

    missing: dict[str, int] = {}
    """When each missing contract was first missing."""


class ListingChange(NamedTuple):
    """A contract that was listed or delisted."""

    type: Literal["contract.listed", "contract.delisted"]
    at: int
    contract: str
    base: str


def next_listings(
    before: Listings | None, reading: Perpetuals
) -> tuple[Listings, list[ListingChange]]:
    """The listings after a reading, and what changed; the first reading changes nothing.

    A contract whose values were out of range is still listed.
    """
    bases = {each.contract: each.base for each in reading.contracts}
    if before is None:
        return Listings(bases), []
    refused = {name for names in reading.refused.values() for name in names}
    gone = before.bases.keys() - bases.keys() - refused
    missing = {name: before.missing.get(name, reading.as_of) for name in sorted(gone)}
    delisted = {
        name: since for name, since in missing.items() if reading.as_of - since >= DELISTED_AFTER
    }
    changes = [
        ListingChange("contract.listed", reading.as_of, name, base)
        for name, base in bases.items()
        if name not in before.bases
    ]
    changes += [
        ListingChange("contract.delisted", since, name, before.bases[name])
        for name, since in delisted.items()
    ]
    known = {name: base for name, base in (before.bases | bases).items() if name not in delisted}
    waiting = {name: since for name, since in missing.items() if name not in delisted}
    after = Listings(known, waiting)
    return (before if after == before else after), changes


LISTINGS = Feed("listings", Listings)

"""Which contracts were listed when, kept for good: the universe of coins at any time."""

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

from barograph.errors import NotFound
from barograph.kit.database import Queryable, Statement, Transaction
from barograph.markets.samples import RecordedListing
from barograph.markets.symbols import (
    NAMES,
    UNKNOWN_COIN,
    UNKNOWN_SYMBOL,
    require_name,
    symbol_from,
    upper,
)
from barograph.venues.registry import VENUES, coin_of


class ListingChange(NamedTuple):
    """A contract that a reading lists, or that readings lack since a time."""

    contract: str
    at: int
    asset: str = ""
    multiplier: int = 1
    is_delisted: bool = False


async def record_listings(tx: Transaction, venue: str, changes: Sequence[ListingChange]) -> None:
    """Store what was listed and delisted, in order. What is known already stays as it is."""
    if changes:
        await _name_earlier(tx, venue)
    for is_delisted, run in groupby(changes, attrgetter("is_delisted")):
        if is_delisted:
            await tx.execute_many(_DELIST, [(venue, *change[:2]) for change in run])
        else:
            await tx.execute_many(_LIST, [(venue, *change[:4]) for change in run])


async def _name_earlier(tx: Transaction, venue: str) -> None:
    """Name the coins of contracts that were recorded before there were listings."""
    for (contract,) in await tx.fetch(_UNNAMED, venue):
        base = contract.removesuffix(VENUES[venue].suffix) or contract
        await tx.execute(_NAME, venue, contract, *coin_of(venue, base))


Place = tuple[str, str, int]
"""The venue, the contract and the time of a listing, in whose order they are listed."""


async def listings_after(
    queryable: Queryable, place: Place, count: int, *, asset: str, venue: str, at: int
) -> list[RecordedListing]:
    """Listings after a place: of a coin, of a venue and at a time, or of all if empty or 0."""
    return await _AFTER.fetch(queryable, *place, asset, venue, at, count)


async def listed_since(tx: Transaction, venue: str, contract: str, at: int) -> None:
    """Extend the first listing of a contract back to an hour that the venue's history has."""
    await tx.execute(_EXTEND, venue, contract, at)


async def listings_named(
    queryable: Queryable,
    text: str,
    venues: Collection[str] = VENUES,
    parameter: Literal["symbol", "coin"] = "symbol",
) -> list[RecordedListing]:
    """The listings at some venues of the coin that a request names, even if they ended.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none that we know.
    """
    name = upper(require_name(text, parameter))
    letters = "".join(character for character in name if character.isalnum())
    coins = [venue.coin_of(each)[0] for each in (text, name) for venue in VENUES.values()]
    bases = [venue.coin_of(name.removesuffix(venue.suffix))[0] for venue in VENUES.values()]
    for asset in dict.fromkeys((text, name, *coins, *bases, NAMES.get(letters, ""))):
        listings = await listings_of(queryable, asset, venues) if asset else []
        if listings:
            return listings
    raise NotFound(UNKNOWN_COIN if parameter == "coin" else UNKNOWN_SYMBOL)


async def listings_of(
    queryable: Queryable, asset: str, venues: Collection[str] = VENUES
) -> list[RecordedListing]:
    """Every listing of a coin at some venues, by venue, contract and time."""
    return [each for each in await _OF_ASSET.fetch(queryable, asset) if each.venue in venues]


async def recorded_coins(queryable: Queryable, venues: Collection[str]) -> dict[str, str]:
    """The coins that some venues ever listed, by their own names and those of their contracts."""
    rows = await queryable.fetch(_COINS)
    names: dict[str, str] = {}
    for venue, contract, asset in rows:
        if venue in venues:
            names |= dict.fromkeys((contract.upper(), symbol_from(venue, contract)), asset)
    return names | {asset.upper(): asset for venue, _, asset in rows if venue in venues}


_LIST = """
INSERT INTO listings (venue, contract, listed_at, asset, multiplier)
SELECT $1, $2, CAST($3 AS BIGINT), $4, CAST($5 AS BIGINT) WHERE NOT EXISTS (
    SELECT 1 FROM listings WHERE venue = $1 AND contract = $2 AND delisted_at IS NULL)
ON CONFLICT DO NOTHING
"""
_DELIST = """
UPDATE listings SET delisted_at = $3
WHERE venue = $1 AND contract = $2 AND delisted_at IS NULL AND listed_at < $3
"""
_UNNAMED = "SELECT DISTINCT contract FROM listings WHERE asset = '' AND venue = $1"
_NAME = "UPDATE listings SET asset = $3, multiplier = $4 WHERE venue = $1 AND contract = $2"
_EXTEND = """
UPDATE listings SET listed_at = $3
WHERE venue = $1 AND contract = $2 AND listed_at > $3 AND listed_at = (
    SELECT min(listed_at) FROM listings WHERE venue = $1 AND contract = $2)
"""
_AFTER = Statement(
    RecordedListing,
    """
SELECT {columns} FROM listings
WHERE (venue, contract, listed_at) > ($1, $2, $3) AND asset <> ''
    AND ($4 = '' OR asset = $4) AND ($5 = '' OR venue = $5)
    AND ($6 = 0 OR (listed_at <= $6 AND (delisted_at IS NULL OR delisted_at > $6)))
ORDER BY venue, contract, listed_at LIMIT $7
""",
)
_COINS = "SELECT DISTINCT venue, contract, asset FROM listings WHERE asset <> ''"
_OF_ASSET = Statement(
    RecordedListing,
    "SELECT {columns} FROM listings WHERE asset = $1 ORDER BY venue, contract, listed_at",
)

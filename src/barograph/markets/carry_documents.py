"""What positions earned or paid, and the best pairs, as JSON and CSV (pure)."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec.structs import astuple, fields
from pydantic import Field

from barograph.kit.csv_table import CSV, cells, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.wire import WireModel
from barograph.markets.carry import CarryCoin, CarryVenue
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import State
from barograph.markets.cross_documents import NoNext, VenueName

CARRY_PATH = "/api/v1/carry"
NOT_INCLUDED = "fees and prices"

Number = float | None


class CarryVenueEntry(WireModel):
    """What longs paid to shorts for a coin at one venue; shorts paid if it is negative."""

    venue: VenueName
    state: State
    reason: Annotated[str | None, Field(description="Why it is not `ok`, or a sum is null.")]
    contract: str | None
    settledPct: Annotated[
        Number,
        Field(
            description="The sum of the settled rates, in percent of the position. Null unless all "
            "of the window are known."
        ),
    ]
    yearlyPct: Annotated[Number, Field(description="Times 365 / days, not compounded.")]
    yearlyPctBefore: Annotated[Number, Field(description="In the window before.")]


class CarryEntry(WireModel):
    """A coin at every venue that lists it, and the best pair of venues."""

    coin: str
    settledTo: Annotated[str | None, Field(description="End of the window at all venues.")]
    shortVenue: Annotated[str | None, Field(description="Where funding was highest.")]
    longVenue: Annotated[str | None, Field(description="Where it was lowest.")]
    pairPct: Annotated[
        Number,
        Field(
            description="What a short at the one and a long of the same size at the other earned, "
            "without fees and prices. Null without two venues to compare."
        ),
    ]
    pairYearlyPct: Annotated[Number, Field(description="Times 365 / days, not compounded.")]
    pairYearlyPctChange: Annotated[
        Number, Field(description="Against the same two venues in the window before.")
    ]
    missing: Annotated[list[str], Field(description="Venues not compared; `reason` says why.")]
    venues: list[CarryVenueEntry]


class CarryList(ListBody):
    """Every coin over one window, the best pair first."""

    window: str
    notIncluded: Annotated[str, Field(description="What positions also cost or earn.")]
    carry: list[CarryEntry]
    next: NoNext


def carry_document(market: CrossMarket, coins: Sequence[CarryCoin], window: str) -> Document:
    """A list of these coins."""
    also = {"window": window, "notIncluded": NOT_INCLUDED}
    entries = list(map(msgspec.json.Encoder().encode, coins))
    return _document(market, _head(market).encode("carry", entries, None, also), JSON)


def carry_table(market: CrossMarket, coins: Sequence[CarryCoin], window: str) -> Document:
    """The same as CSV, with a row for each venue."""
    rows = (
        cells([window, NOT_INCLUDED, *astuple(coin)[:-2], " ".join(coin.missing), *astuple(venue)])
        for coin in coins
        for venue in coin.venues
    )
    return _document(market, table(",".join(CARRY_COLUMNS), rows, _head(market).source), CSV)


def _head(market: CrossMarket) -> ListHead:
    """With the venues that are down, because what they settled counts."""
    known = [each.reading for each in market.facts.values() if each.reading is not None]
    sources = "; ".join(reading.source for reading in known)
    return ListHead(market.as_of, ",".join(reading.venue for reading in known), sources)


def _document(market: CrossMarket, body: bytes, kind: bytes) -> Document:
    until, modified = market.until, market.as_of
    return Document(
        body, since=market.now, until=until, modified=modified, content_type=kind, compress=True
    )


CARRY_COLUMNS = (
    *("window", "notIncluded"),
    *[field.encode_name for field in fields(CarryCoin)][:-1],
    *[field.encode_name for field in fields(CarryVenue)],
)

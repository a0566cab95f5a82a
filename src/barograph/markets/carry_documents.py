"""What positions earned or paid, and the best pairs, as JSON and CSV (pure)."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from pydantic import Field

from barograph.kit.csv_table import CSV, cells, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.carry import NOT_INCLUDED, CarryCoin, CarryVenue
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import State
from barograph.markets.cross_documents import NoNext, Reason, VenueName, yearly
from barograph.markets.settlements import WINDOW_DAYS

CARRY_PATH = "/api/v1/carry"

Number = float | None


def _is(description: str) -> Any:  # noqa: ANN401 - as pydantic's own
    return Field(description=description)


class CarryVenueEntry(WireModel):
    """What longs paid to shorts for a coin at one venue; shorts paid if it is negative."""

    venue: VenueName
    state: State
    reason: Reason
    contract: Annotated[str | None, _is("Full name at the venue.")]
    settledPct: Annotated[
        Number,
        _is(
            "The sum of the settled rates of the window, in percent of the position. Null unless "
            "all are known. A venue that is down keeps it while it covers the same hours."
        ),
    ]
    yearlyPct: Annotated[
        Number, _is("The same per year: times 365, divided by the days, not compounded.")
    ]
    yearlyPctBefore: Annotated[Number, _is("That of the window of the same length before.")]


class _CarryPair(WireModel):
    coin: Annotated[str, _is("The coin without multiplier, such as `PEPE`.")]
    settledTo: Annotated[str | None, _is("End of the window at all venues.")]
    shortVenue: Annotated[
        str | None, _is("Where funding was highest; null if the venues settled the same.")
    ]
    longVenue: Annotated[str | None, _is("Where funding was lowest.")]
    pairPct: Annotated[
        Number,
        _is(
            "What a short at the one and a long of the same size at the other earned in the "
            "window, without fees and prices. Null without two venues to compare."
        ),
    ]
    pairYearlyPct: Annotated[Number, _is("The same per year, not compounded.")]
    pairYearlyPctChange: Annotated[
        Number, _is("`pairYearlyPct` less that of the same two venues in the window before.")
    ]
    missing: Annotated[list[str], _is("Venues not compared; `reason` says why.")]


class CarryEntry(_CarryPair):
    """A coin at every venue that lists it, and the best pair of venues."""

    venues: list[CarryVenueEntry]


class CarryList(ListBody):
    """Every coin over one window, the best pair first."""

    window: Annotated[str, _is("`8h`, `24h`, `7d` or `30d`.")]
    notIncluded: Annotated[str, _is("What a position also costs or earns.")]
    carry: list[CarryEntry]
    next: NoNext


def encoded_carry(coins: Sequence[CarryCoin], window: str) -> list[bytes]:
    """Each coin as JSON, as in the list."""
    encode, days = msgspec.json.Encoder().encode, WINDOW_DAYS[window]
    return [
        encode({**_pair(coin, days), "venues": [_venue(each, days) for each in coin.venues]})
        for coin in coins
    ]


def carry_document(market: CrossMarket, entries: Sequence[bytes], window: str) -> Document:
    """A list of these coins."""
    also = {"window": window, "notIncluded": NOT_INCLUDED}
    return _document(market, _head(market).encode("carry", entries, None, also), JSON)


def carry_table(market: CrossMarket, coins: Sequence[CarryCoin], window: str) -> Document:
    """All coins as CSV."""
    rows = (cells(row) for coin in coins for row in _rows(coin, window))
    return _document(market, table(",".join(CARRY_COLUMNS), rows, _head(market).source), CSV)


def _head(market: CrossMarket) -> ListHead:
    """All venues that were ever read: settled funding doesn't need a fresh reading."""
    known = {name: each.reading for name, each in market.facts.items() if each.reading is not None}
    sources = "; ".join(reading.source for reading in known.values())
    return ListHead(market.as_of, ",".join(known), sources)


def _document(market: CrossMarket, body: bytes, kind: bytes) -> Document:
    return Document(
        body,
        since=market.now,
        until=market.until,
        modified=market.as_of,
        content_type=kind,
        compress=True,
    )


def _pair(coin: CarryCoin, days: float) -> dict[str, Any]:
    pair = coin.pair
    return {
        "coin": coin.asset,
        "settledTo": None if coin.settled_to is None else iso_timestamp(coin.settled_to),
        "shortVenue": pair.short,
        "longVenue": pair.long,
        "pairPct": pair.pct,
        "pairYearlyPct": yearly(pair.pct, days),
        "pairYearlyPctChange": yearly(pair.change_pct, days),
        "missing": coin.missing,
    }


def _venue(each: CarryVenue, days: float) -> dict[str, Any]:
    return {
        "venue": each.venue,
        "state": each.state,
        "reason": each.reason,
        "contract": each.contract,
        "settledPct": each.pct,
        "yearlyPct": yearly(each.pct, days),
        "yearlyPctBefore": yearly(each.before_pct, days),
    }


def _rows(coin: CarryCoin, window: str) -> Iterator[list[Any]]:
    days = WINDOW_DAYS[window]
    pair = {**_pair(coin, days), "missing": " ".join(coin.missing)}
    for each in coin.venues:
        yield [window, NOT_INCLUDED, *pair.values(), *_venue(each, days).values()]


CARRY_COLUMNS = (
    *("window", "notIncluded"),
    *_CarryPair.model_fields,
    *CarryVenueEntry.model_fields,
)

"""What positions earned or paid in settled funding at each venue, and the best pair (pure).

Fees and prices are not included. What a venue settled stays true while it is down: it counts for as
long as it covers the same hours as the other venues, so that no pair changes because a venue fails.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from barograph.kit.csv_table import CSV, cells, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_bodies import NoNext, Number, Text, VenueName, doc
from barograph.markets.cross_coins import CrossCoin, widest_pair
from barograph.markets.cross_documents import document_of
from barograph.markets.cross_entries import FUNDING, State, others
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, yearly

CARRY_PATH = "/api/v1/carry"
DEFAULT_WINDOW = "7d"
NOT_INCLUDED = "fees and prices"


class CarryVenue(WireModel):
    """What longs paid to shorts for a coin at one venue; negative if shorts paid."""

    venue: VenueName
    state: State
    reason: Annotated[Text, doc("Why the state is not `ok` or a sum is null.")]
    contract: Text
    settledPct: Annotated[Number, doc("Sum of settled rates, in %; null unless all are known.")]
    yearlyPct: Annotated[Number, doc("`settledPct` times 365 / days, not compounded.")]
    yearlyPctBefore: Annotated[Number, doc("The same for the window before.")]


class CarryCoin(WireModel):
    """A coin at every venue that lists it, and the best pair of venues."""

    coin: str
    settledTo: Annotated[Text, doc("End of the window at all venues.")]
    shortVenue: Annotated[Text, doc("Where funding was highest; null if all settled the same.")] = (
        None
    )
    longVenue: Annotated[Text, doc("Where it was lowest.")] = None
    pairPct: Annotated[
        Number,
        doc("Earned by a short at `shortVenue` and an equal long at `longVenue`, in % of one leg."),
    ] = None
    pairYearlyPct: Annotated[Number, doc("`pairPct` times 365 / days, not compounded.")] = None
    pairYearlyPctChange: Annotated[
        Number, doc("Change from the window before at these two venues, in percentage points.")
    ] = None
    missing: Annotated[list[str], doc("Venues not compared; their `reason` says why.")]
    venues: list[CarryVenue]


class CarryList(ListBody):
    """Every coin over one window, the best pair first."""

    window: str
    notIncluded: Annotated[str, doc("What the numbers leave out.")]
    carry: list[CarryCoin]
    next: NoNext


_PAIR_COLUMNS = [name for name in CarryCoin.model_fields if name != "venues"]
CARRY_COLUMNS = ("window", "notIncluded", *_PAIR_COLUMNS, *CarryVenue.model_fields)


def carry_document(
    market: CrossMarket, coins: Sequence[CarryCoin], window: str, *, is_table: bool
) -> Document:
    """These coins, also of venues that are down, because what they settled counts."""
    known = [each.reading for each in market.facts.values() if each.reading is not None]
    names, source = ",".join(each.venue for each in known), "; ".join(each.source for each in known)
    head = ListHead(market.as_of, names, source)
    if is_table:
        body = table(",".join(CARRY_COLUMNS), _rows(coins, window), source)
    else:
        also = {"window": window, "notIncluded": NOT_INCLUDED}
        body = head.encode("carry", [coin.encode() for coin in coins], None, also)
    return document_of(market, body, CSV if is_table else JSON)


def _rows(coins: Sequence[CarryCoin], window: str) -> Iterator[str]:
    for coin in coins:
        pair = coin.model_dump(exclude={"venues"})
        for venue in coin.venues:
            yield cells([window, NOT_INCLUDED, *pair.values(), *venue.model_dump().values()])


def carry(market: CrossMarket, window: str) -> list[CarryCoin]:
    """Every coin over one of `WINDOW_DAYS`, the best pair first."""
    coins = [carry_coin(coin, window) for coin in market.coins.values()]
    return sorted(coins, key=lambda each: (each.pairPct is None, -(each.pairPct or 0), each.coin))


def carry_coin(coin: CrossCoin, window: str) -> CarryCoin:
    """One coin over one of `WINDOW_DAYS`."""
    place, days, end = list(WINDOW_DAYS).index(window), WINDOW_DAYS[window], coin.settled_to
    to = None if end is None else iso_timestamp(end)
    venues: list[CarryVenue] = []
    rates: list[tuple[float, CarryVenue]] = []
    for entry in coin.venues:
        sums = [(e.all_pct, e.before) for e in entry.settled_choices if e.end == end]
        pct, before = (sums[0][0][place], sums[0][1][place]) if sums else (None, None)
        reason = entry.reason
        if pct is None and entry.contract is not None:
            why = f"we don't know every settlement of the {window} to {to or 'now'}"
            if FUNDING in entry.disputed and end is not None and end > entry.settled_until:
                why = f"what it settled after {iso_timestamp(entry.settled_until)} is disputed"
            reason = why if reason is None else f"{reason}; {why}"
        venue = CarryVenue.model_construct(
            venue=entry.venue,
            state=entry.state,
            reason=reason,
            contract=None if entry.contract is None else entry.contract.contract,
            settledPct=pct,
            yearlyPct=yearly(pct, days),
            yearlyPctBefore=yearly(before, days),
        )
        venues.append(venue)
        if pct is not None and entry.state != "different asset":
            rates.append((pct, venue))
    missing = [*others(coin.venues, (venue.venue for _, venue in rates))]
    pair = _best_pair(rates, days)
    return CarryCoin.model_construct(
        coin=coin.asset, settledTo=to, **pair, missing=missing, venues=venues
    )


def _best_pair(rates: Sequence[tuple[float, CarryVenue]], days: float) -> dict[str, Any]:
    """A short where funding was highest, and a long where it was lowest."""
    pair = widest_pair([(pct, venue.venue) for pct, venue in rates])
    if pair is None:
        return {}
    pct, short, long = pair[0], rates[pair[1]][1], rates[pair[2]][1]
    if pct == 0:
        return {"pairPct": pct, "pairYearlyPct": pct}
    found = {"shortVenue": short.venue, "longVenue": long.venue, "pairPct": pct}
    now, high, low = yearly(pct, days), short.yearlyPctBefore, long.yearlyPctBefore
    if now is not None and high is not None and low is not None:
        found["pairYearlyPctChange"] = round(now - (high - low), RATE_DIGITS)
    return found | {"pairYearlyPct": now}

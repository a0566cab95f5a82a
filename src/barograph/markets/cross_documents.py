"""The cross-venue view as JSON and CSV (pure).

Bodies are written from dictionaries, because validating thousands of models takes 100 ms. The
models describe them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import Field

from barograph import NOTICE
from barograph.kit.csv_table import CSV, cells, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.markets.cross import (
    CrossCoin,
    CrossMarket,
    CrossVenue,
    State,
    VenueFacts,
)
from barograph.markets.documents import FundingRatePct, NextFundingTime
from barograph.markets.perpetuals import AsOf
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, yearly
from barograph.markets.view import FreshnessLimits
from barograph.terms.sources import SOURCES, Unconfirmed
from barograph.venues.facts import Completeness

CROSS_PATH = "/api/v1/cross"
VENUES_PATH = "/api/v1/venues"
KEEP_MS = 2 * SECOND
"""How long caches may keep the list of venues, which states ages."""

Number = float | None
Text = str | None


def _is(description: str) -> Any:  # noqa: ANN401 - as pydantic's own
    return Field(description=description)


VenueName = Annotated[str, _is("The exchange, such as `bybit`.")]
Reason = Annotated[Text, _is("Why the state is not `ok`.")]
Counting = Annotated[str, _is("Which sides the venue's own open interest counts.")]
Complete = Annotated[Completeness, _is("How much the venue publishes; only `all` adds up.")]
WatchedPct = Annotated[Number, _is("Share of the 24 hours that we watched, in percent.")]
NoNext = Annotated[str | None, _is("Always null: there is only one page.")]


class MissingVenue(WireModel):
    """A venue without which a result is null."""

    venue: str
    reason: str


class FundingSpread(WireModel):
    """The widest difference of settled funding between two venues, over the same 8 hours."""

    highest: Annotated[Text, _is("Of those compared; null if they settled the same.")]
    lowest: Text
    pct8h: Annotated[float, _is("The higher `settledPct8h` less the lower.")]
    missing: Annotated[list[str], _is("Venues not compared: unknown or disputed.")]


class CrossVenueEntry(WireModel):
    """A coin at one venue. The numbers are null without fresh data.

    A disputed measure is shown, but left out of totals, weights and spreads. Another asset of the
    same name is left out of all of them.
    """

    venue: VenueName
    state: State
    reason: Reason
    contract: Annotated[Text, _is("Full name at the venue.")]
    pricePerCoin: Annotated[Number, _is("Mark price of one coin.")]
    fundingRatePct8h: Annotated[Number, _is("The live rate per 8 hours, in percent: an estimate.")]
    settledPct8h: Annotated[
        Number,
        _is(
            "What longs paid to shorts in the 8 hours to `settledTo`, in percent: the sum of the "
            "rates that the venue reports as settled. Null unless all are known."
        ),
    ]
    settledPct24h: Number
    settledPct7d: Number
    settledPct30d: Number
    settledYearlyPct8h: Annotated[
        Number, _is("The same per year: times 365, divided by the days, not compounded.")
    ]
    settledYearlyPct24h: Number
    settledYearlyPct7d: Number
    settledYearlyPct30d: Number
    openInterestUsd: Annotated[Number, _is("One-sided.")]
    openInterestCoins: Annotated[Number, _is("One-sided, in single coins, also for 1000PEPE.")]
    weightPct: Annotated[Number, _is("Weight in `weightedFundingRatePct8h`, in percent.")]


class CrossLiquidations(WireModel):
    """Liquidations of a coin at one venue in 24 hours; null if coverage is too low."""

    completeness: Complete
    longUsd: Number
    shortUsd: Number
    watchedPct: WatchedPct
    as_of: Annotated[Text, _is("End of the 24 hours.")]


class CrossVenueBody(CrossVenueEntry):
    """A coin at one venue, with the venue's own numbers and times."""

    multiplier: Annotated[int | None, _is("Coins that the price is for: 1000 for 1000PEPE.")]
    price: Annotated[Number, _is("Price of `priceKind`, in `quote`.")]
    priceKind: Annotated[Text, _is("`last` or `mark`.")]
    quote: Annotated[Text, _is("Currency of the price, such as `USDT`.")]
    fundingRatePct: FundingRatePct
    fundingIntervalHours: Annotated[Number, _is("Hours between two settlements.")]
    nextFundingTime: NextFundingTime
    as_of: Annotated[Text, _is("Time of price and funding.")]
    open_interest_as_of: Annotated[Text, _is("Time of the open interest.")]
    openInterestCounting: Counting
    disputed: Annotated[list[str], _is("Measures that contradict the other venues.")]
    liquidations24h: CrossLiquidations


class _CrossTotals(WireModel):
    coin: Annotated[str, _is("The coin without multiplier, such as `PEPE`.")]
    deepestVenue: Annotated[Text, _is("The largest; we compare the other marks with it.")]
    totalOpenInterestUsd: Annotated[Number, _is("Null if `openInterestMissing` names a venue.")]
    totalOpenInterestCoins: Annotated[Number, _is("Also null if a venue sends only USD.")]
    openInterestMissing: list[MissingVenue]
    weightedFundingRatePct8h: Annotated[
        Number,
        _is(
            "Live rates weighted by open interest: an estimate. Null if `fundingMissing` names "
            "a venue."
        ),
    ]
    fundingMissing: list[MissingVenue]
    settledTo: Annotated[
        Text,
        _is("End of the settled windows at all venues: 00:00, 08:00 or 16:00 UTC."),
    ]
    fundingSpread: Annotated[
        FundingSpread | None, _is("Null unless two venues have `settledPct8h`.")
    ]
    liquidations24hAtLeastUsd: Annotated[Number, _is("What we saw: a lower bound, no total.")]


class CrossEntry(_CrossTotals):
    """A coin at every venue that lists it."""

    venues: list[CrossVenueEntry]


class CrossList(ListBody):
    """Every coin: BTC, ETH and SOL, then the others, the largest open interest first."""

    cross: list[CrossEntry]
    next: NoNext


class _Head(WireModel):
    as_of: AsOf
    venue: Annotated[str, _is("The venues with fresh data, separated by commas.")]
    source: Annotated[str, _is("Their sources, separated by semicolons.")]
    notice: Notice


class CrossBody(_CrossTotals, _Head):
    """One coin at every configured venue."""

    venues: list[CrossVenueBody]


class VenueDispute(WireModel):
    """A measure that contradicts the other venues."""

    measure: str
    since: str
    why: str


class VenueTerms(WireModel):
    """The terms of a venue, which the operator confirms."""

    url: str
    date: Annotated[str, _is("Date of the terms; empty if unknown.")]
    says: Annotated[str, _is("What they say, as we know it.")]
    confirmed: Annotated[bool | None, _is("Null if that is not known yet.")]


class VenueEntry(WireModel):
    """A configured venue: what it publishes, and its health."""

    venue: VenueName
    title: str
    role: Annotated[str, _is("`primary`, or `standby`, which takes over if the primary fails.")]
    inUse: Annotated[bool, _is("Whether the other endpoints show its data.")]
    source: str
    priceKind: Annotated[str, _is("Kind of its prices: `last` or `mark`.")]
    quote: Annotated[str, _is("Currency of its prices.")]
    longAccounts: Annotated[bool, _is("Whether it publishes shares of long accounts.")]
    liquidations: Complete
    liquidationPriceKind: Annotated[Text, _is("Null without liquidations.")]
    openInterestCounting: Counting
    contracts: Annotated[int | None, _is("Number of its crypto perpetuals.")]
    openInterestContracts: Annotated[int | None, _is("Those with a known open interest.")]
    watchedPct: WatchedPct
    as_of: Annotated[Text, _is("Time of the last reading.")]
    ageSeconds: Annotated[Number, _is("Age of the last reading.")]
    state: State
    reason: Reason
    failure: Annotated[Text, _is("Kind of the last failure; null after a success.")]
    failing_since: Text
    disputed: list[VenueDispute]
    terms: VenueTerms | None


class VenueList(ListBody):
    """The configured venues, the primary first."""

    venues: list[VenueEntry]
    next: NoNext


def encoded_coins(market: CrossMarket) -> list[bytes]:
    """Every coin as JSON, as in the list."""
    encode = msgspec.json.Encoder().encode
    return [
        encode({**_totals(coin), "venues": list(map(_row, coin.venues, coin.weights))})
        for coin in market.coins.values()
    ]


def cross_document(market: CrossMarket, coins: Sequence[bytes], *, compress: bool) -> Document:
    """A list of these coins."""
    return _document(market, _head(market).encode("cross", coins, None), compress=compress)


def cross_table(market: CrossMarket) -> Document:
    """All coins as CSV."""
    rows = (cells(row) for coin in market.coins.values() for row in _table_rows(coin))
    return _document(market, table(",".join(CROSS_COLUMNS), rows, _head(market).source), CSV)


def coin_document(market: CrossMarket, coin: CrossCoin) -> Document:
    """One coin, with a row for every configured venue."""
    as_of, venue, source, notice = _head(market)
    head = {"as_of": _text(as_of), "venue": venue, "source": source, "notice": notice}
    listed = {each.venue for each in coin.venues}
    absent = [CrossVenue(name, "not listed") for name in market.facts if name not in listed]
    weights = chain(coin.weights, repeat(None))
    rows = [
        {**_row(each, weight), **_details(market, each)}
        for each, weight in zip([*coin.venues, *absent], weights, strict=False)
    ]
    return _document(market, msgspec.json.encode({**head, **_totals(coin), "venues": rows}))


def _head(market: CrossMarket) -> ListHead:
    sources = "; ".join(each.source for each in market.fresh)
    return ListHead(market.as_of, ",".join(each.venue for each in market.fresh), sources, NOTICE)


def _document(
    market: CrossMarket, body: bytes, kind: bytes = JSON, *, compress: bool = True
) -> Document:
    return Document(
        body,
        since=market.now,
        until=market.until,
        modified=market.as_of,
        content_type=kind,
        compress=compress,
    )


def _totals(coin: CrossCoin) -> dict[str, Any]:
    return {
        "coin": coin.asset,
        "deepestVenue": coin.deepest,
        "totalOpenInterestUsd": _rounded(coin.open_interest_usd, 2),
        "totalOpenInterestCoins": coin.open_interest_coins,
        "openInterestMissing": coin.open_interest_missing,
        "weightedFundingRatePct8h": _rounded(coin.funding_8h_pct, RATE_DIGITS),
        "fundingMissing": coin.funding_missing,
        "settledTo": _text(coin.settled_to),
        "fundingSpread": coin.spread,
        "liquidations24hAtLeastUsd": _rounded(coin.at_least_usd, 2),
    }


def _row(each: CrossVenue, weight: float | None) -> dict[str, Any]:
    settled = each.settled.all_pct if each.settled is not None else (None,) * len(WINDOW_DAYS)
    return {
        "venue": each.venue,
        "state": each.state,
        "reason": each.reason,
        "contract": None if each.contract is None else each.contract.contract,
        "pricePerCoin": each.price,
        "fundingRatePct8h": each.funding_8h_pct,
        **dict(zip(_SETTLED, settled, strict=True)),
        **dict(zip(_SETTLED_YEARLY, map(yearly, settled, WINDOW_DAYS.values()), strict=True)),
        "openInterestUsd": each.interest_usd,
        "openInterestCoins": each.interest_coins,
        "weightPct": _rounded(weight, 2),
    }


def _details(market: CrossMarket, each: CrossVenue) -> dict[str, Any]:
    known, facts = each.contract, market.facts[each.venue]
    totals = facts.fresh_totals(market.limits, market.now)
    longs, shorts = (None, None) if each.liquidated_usd is None else each.liquidated_usd
    at = each.as_of if known is None else known.open_interest_at or each.as_of
    return {
        **{name: None if known is None else getattr(known, field) for name, field in _OWN.items()},
        "as_of": _text(each.as_of),
        "open_interest_as_of": None if each.interest_usd is None else _text(at),
        "openInterestCounting": facts.venue.open_interest,
        "disputed": each.disputed,
        "liquidations24h": {
            "completeness": facts.venue.liquidations,
            "longUsd": longs,
            "shortUsd": shorts,
            "watchedPct": None if totals is None else totals.watched_pct,
            "as_of": None if totals is None else _text(totals.as_of),
        },
    }


def _table_rows(coin: CrossCoin) -> Iterator[list[Any]]:
    totals = _totals(coin)
    totals["openInterestMissing"] = " ".join(each.venue for each in coin.open_interest_missing)
    totals["fundingMissing"] = " ".join(each.venue for each in coin.funding_missing)
    totals["fundingSpread"] = None if coin.spread is None else coin.spread.pct_8h
    for each, weight in zip(coin.venues, coin.weights, strict=True):
        yield [*totals.values(), *_row(each, weight).values()]


class VenueRoles(NamedTuple):
    """How this instance uses its venues."""

    primary: str
    in_use: str
    unconfirmed: Unconfirmed | None
    """None if the terms are not known yet."""


def venues_document(
    facts: Mapping[str, VenueFacts], roles: VenueRoles, limits: FreshnessLimits, now: int
) -> Document:
    """The configured venues."""
    entries = venue_entries(facts, roles, limits, now)
    head = ListHead(now, roles.in_use, facts[roles.in_use].venue.source)
    body = head.encode("venues", [entry.encode() for entry in entries], None)
    return Document(body, until=now + KEEP_MS, modified=now)


def venue_entries(
    facts: Mapping[str, VenueFacts], roles: VenueRoles, limits: FreshnessLimits, now: int
) -> list[VenueEntry]:
    """What each configured venue publishes, and its health."""
    return [_venue(fact, roles, limits, now) for fact in facts.values()]


def _venue(facts: VenueFacts, roles: VenueRoles, limits: FreshnessLimits, now: int) -> VenueEntry:
    venue, reading, totals = facts.venue, facts.reading, facts.fresh_totals(limits, now)
    contracts = None if reading is None else reading.contracts
    state, reason = facts.state(limits, now)
    if roles.unconfirmed is not None and venue.name in roles.unconfirmed.names:
        reason = roles.unconfirmed.explain(venue.name)
    return VenueEntry(
        venue=venue.name,
        title=venue.title,
        role="primary" if venue.name == roles.primary else "standby",
        inUse=venue.name == roles.in_use,
        source=venue.source,
        priceKind=venue.price_kind,
        quote=venue.quote,
        longAccounts=venue.has_long_accounts,
        liquidations=venue.liquidations,
        liquidationPriceKind=venue.liquidation_price or None,
        openInterestCounting=venue.open_interest,
        contracts=None if contracts is None else len(contracts),
        openInterestContracts=None
        if contracts is None
        else sum(perpetual.open_interest_usd is not None for perpetual in contracts),
        watchedPct=None if totals is None else totals.watched_pct,
        as_of=None if reading is None else _text(reading.as_of),
        ageSeconds=None if reading is None else (now - reading.as_of) / SECOND,
        state=state,
        reason=reason,
        failure=facts.failure,
        failing_since=_text(facts.failing_since),
        disputed=[
            VenueDispute(measure=name, since=iso_timestamp(each.since), why=each.why)
            for name, each in facts.disputed.items()
        ],
        terms=_terms(venue.name, roles.unconfirmed),
    )


def _terms(name: str, unconfirmed: Unconfirmed | None) -> VenueTerms | None:
    known = SOURCES.get(name)
    if known is None:
        return None
    confirmed = None if unconfirmed is None else name not in unconfirmed.names
    return VenueTerms(url=known.url, date=known.terms_date, says=known.says, confirmed=confirmed)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


@lru_cache(maxsize=512)
def _text(at: int | None) -> str | None:
    return None if at is None else iso_timestamp(at)


_SETTLED = [f"settledPct{window}" for window in WINDOW_DAYS]
_SETTLED_YEARLY = [f"settledYearlyPct{window}" for window in WINDOW_DAYS]
CROSS_COLUMNS = (*_CrossTotals.model_fields, *CrossVenueEntry.model_fields)

_OWN = {
    "multiplier": "multiplier",
    "price": "last_price",
    "priceKind": "price_kind",
    "quote": "quote",
    "fundingRatePct": "funding_rate_pct",
    "fundingIntervalHours": "funding_interval_hours",
    "nextFundingTime": "next_funding_time",
}
"""The members that are as the venue states them, and their fields."""

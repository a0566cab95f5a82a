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
from barograph.markets.cross import CrossMarket, VenueFacts
from barograph.markets.cross_coins import (
    Change,
    CrossCoin,
    CrossVenue,
    Direction,
    Missing,
    PriceRange,
    State,
    Total,
)
from barograph.markets.documents import FundingRatePct, NextFundingTime
from barograph.markets.perpetuals import AsOf
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, yearly
from barograph.markets.view import FreshnessLimits
from barograph.terms.sources import SOURCES, Unconfirmed
from barograph.venues.facts import Completeness
from barograph.venues.registry import NOT_READ

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
Counting = Annotated[str, _is("Sides that its own figure counts.")]
Complete = Annotated[Completeness, _is("How much the venue publishes; only `all` adds up.")]
WatchedPct = Annotated[Number, _is("Share of the 24 hours that we watched, in percent.")]
NoNext = Annotated[str | None, _is("Always null: there is only one page.")]


class MissingVenue(WireModel):
    """A missing venue, with its last known values of at most 7 days ago."""

    venue: str
    reason: str
    lastUsd: Annotated[Number, _is("Open interest, or volume in `volumeMissing`; never disputed.")]
    lastCoins: Annotated[Number, _is("The same in single coins.")]
    last_as_of: Annotated[Text, _is("Time of that value.")]


class OpenInterestChange(WireModel):
    """How the open interest changed in 24 hours, at the same venues then and now."""

    changes_from: Annotated[str, _is("Time of the earlier readings, 24 h ± 5 min ago.")]
    venues: Annotated[
        list[str], _is("The venues compared, missing ones with their last known values.")
    ]
    beforeUsd: Annotated[float, _is("At these venues 24 hours ago.")]
    changeUsd: Annotated[float, _is("Effect of the price plus effect of positions.")]
    changePct: Number
    priceEffectUsd: Annotated[
        Number, _is("Effect of the price: mean coins times the price change. Null without coins.")
    ]
    positionsEffectUsd: Annotated[
        Number, _is("Effect of positions: mean price times the change in coins.")
    ]
    priceChangePct: Annotated[Number, _is("At the largest with both.")]
    coinsChangePct: Annotated[Number, _is("Change in the number of coins.")]
    price: Annotated[Direction | None, _is("Direction of the price; `flat` below 1 %.")]
    positions: Annotated[Direction | None, _is("Direction of the coins; `flat` below 1 %.")]


class PricesOfVenues(WireModel):
    """The lowest and the highest mark price of one coin among the venues."""

    lowest: float
    lowestVenue: str
    highest: float
    highestVenue: str
    missing: Annotated[list[str], _is("Not compared: unknown or disputed.")]


class FundingSpread(WireModel):
    """The widest difference of settled funding between two venues, over the same 8 hours."""

    highest: Annotated[Text, _is("Of those compared; null if they settled the same.")]
    lowest: Text
    pct8h: Annotated[float, _is("The higher `settledPct8h` less the lower.")]
    missing: Annotated[list[str], _is("Not compared: unknown or disputed.")]


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
        Number, _is("What longs paid to shorts in the 8 hours to `settledTo`, in percent.")
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
    sharePct: Annotated[Number, _is("Of `openInterestWithMissingUsd`, in percent.")]
    volume24hUsd: Annotated[Number, _is("24-hour turnover as reported.")]
    volume24hCoins: Annotated[Number, _is("In single coins.")]
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
    quote: Annotated[Text, _is("Such as `USDT`.")]
    indexPrice: Annotated[Number, _is("The index or oracle price that the mark follows.")]
    basisPct: Annotated[Number, _is("Mark minus index price, in percent of the index.")]
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
    deepestVenue: Annotated[Text, _is("The largest; other marks are compared with it.")]
    totalOpenInterestUsd: Annotated[
        Number, _is("Known values only: partial if `openInterestMissing` names a venue.")
    ]
    totalOpenInterestCoins: Annotated[Number, _is("Null if a venue sends only USD.")]
    openInterestComplete: Annotated[bool, _is("False if a venue is missing.")]
    openInterestMissing: list[MissingVenue]
    openInterestWithMissingUsd: Annotated[
        Number, _is("With missing venues' last values; null if one is unknown.")
    ]
    openInterestChange24h: Annotated[
        OpenInterestChange | None, _is("Null if no venue has a value at both times.")
    ]
    totalVolume24hUsd: Annotated[
        Number, _is("24-hour turnover; partial if `volumeMissing` names a venue.")
    ]
    totalVolume24hCoins: Number
    volumeMissing: list[MissingVenue]
    weightedFundingRatePct8h: Annotated[
        Number,
        _is("Live rates by open interest: an estimate, without `fundingMissing`."),
    ]
    weightedFundingWithMissingPct8h: Number
    fundingMissing: list[MissingVenue]
    settledTo: Annotated[
        Text,
        _is("End of the settled windows: 00:00, 08:00 or 16:00 UTC."),
    ]
    fundingSpread: Annotated[
        FundingSpread | None, _is("Null unless two venues have `settledPct8h`.")
    ]
    priceRange: Annotated[PricesOfVenues | None, _is("Mark prices per coin.")]
    liquidations24hAtLeastUsd: Annotated[Number, _is("What we saw: a lower bound.")]
    liquidations24hLongUsd: Annotated[Number, _is("Long positions among them.")]
    liquidations24hShortUsd: Number
    liquidationsIncomplete: Annotated[list[str], _is("Liquidations unknown or not all published.")]


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
    inUse: Annotated[bool, _is("Whether endpoints of one venue show its data.")]
    source: str
    priceKind: Annotated[str, _is("Kind of its prices: `last` or `mark`.")]
    quote: Annotated[str, _is("Currency of its prices.")]
    longAccounts: Annotated[bool, _is("Whether it publishes shares of long accounts.")]
    liquidations: Complete
    liquidationPriceKind: Annotated[Text, _is("Null without liquidations.")]
    openInterestCounting: Counting
    openInterestUsd: Annotated[Number, _is("One-sided: its part of the totals of all coins.")]
    sharePct: Annotated[Number, _is("Of `openInterestWithMissingUsd`, in percent.")]
    contracts: Annotated[int | None, _is("Number of its crypto perpetuals.")]
    openInterestContracts: Annotated[int | None, _is("Those with a known open interest.")]
    watchedPct: WatchedPct
    as_of: Annotated[Text, _is("Time of the last reading.")]
    ageSeconds: Annotated[Number, _is("Age of the last reading.")]
    state: State
    reason: Reason
    failure: Annotated[Text, _is("Kind of the last failure, if it failed.")]
    failing_since: Text
    disputed: list[VenueDispute]
    terms: VenueTerms | None


class VenueNotRead(WireModel):
    """A large venue that no total includes, and why."""

    venue: str
    title: str
    reason: str


class VenueList(ListBody):
    """The configured venues, the primary first."""

    totalOpenInterestUsd: Annotated[
        Number, _is("Of all coins; partial if `openInterestMissing` names a venue.")
    ]
    openInterestMissing: list[MissingVenue]
    openInterestWithMissingUsd: Number
    notRead: Annotated[list[VenueNotRead], _is("Large venues that we don't read, and why.")]
    venues: list[VenueEntry]
    next: NoNext


def encoded_coins(market: CrossMarket) -> list[bytes]:
    """Every coin as JSON, as in the list."""
    encode = msgspec.json.Encoder().encode
    return [
        encode({**_totals(coin), "venues": [_row(coin, *each) for each in _weighted(coin)]})
        for coin in market.coins.values()
    ]


def cross_document(market: CrossMarket, coins: Sequence[bytes], *, compress: bool) -> Document:
    """A list of these coins."""
    return document_of(market, _head(market).encode("cross", coins, None), compress=compress)


def cross_table(market: CrossMarket) -> Document:
    """All coins as CSV."""
    rows = (cells(row) for coin in market.coins.values() for row in _table_rows(coin))
    return document_of(market, table(",".join(CROSS_COLUMNS), rows, _head(market).source), CSV)


def coin_document(market: CrossMarket, coin: CrossCoin) -> Document:
    """One coin, with a row for every configured venue."""
    as_of, venue, source, notice = _head(market)
    head = {"as_of": _text(as_of), "venue": venue, "source": source, "notice": notice}
    listed = {each.venue for each in coin.venues}
    absent = [CrossVenue(name, "not listed") for name in market.facts if name not in listed]
    weights = chain(coin.weights, repeat(None))
    rows = [
        {**_row(coin, each, weight), **_details(market, each)}
        for each, weight in zip([*coin.venues, *absent], weights, strict=False)
    ]
    return document_of(market, msgspec.json.encode({**head, **_totals(coin), "venues": rows}))


def _head(market: CrossMarket) -> ListHead:
    sources = "; ".join(each.source for each in market.fresh)
    return ListHead(market.as_of, ",".join(each.venue for each in market.fresh), sources, NOTICE)


def document_of(
    market: CrossMarket, body: bytes, kind: bytes = JSON, *, compress: bool = True
) -> Document:
    """A body that is valid until the first of the facts reaches its freshness limit."""
    return Document(
        body,
        since=market.now,
        until=market.until,
        modified=market.as_of,
        content_type=kind,
        compress=compress,
    )


def _totals(coin: CrossCoin) -> dict[str, Any]:
    interest, volume = coin.open_interest, coin.volume
    longs, shorts = coin.liquidated_usd or (None, None)
    return {
        "coin": coin.asset,
        "deepestVenue": coin.deepest,
        "totalOpenInterestUsd": _rounded(interest.usd, 2),
        "totalOpenInterestCoins": interest.coins,
        "openInterestComplete": not interest.missing,
        "openInterestMissing": list(map(_missing, interest.missing)),
        "openInterestWithMissingUsd": _rounded(interest.with_missing_usd, 2),
        "openInterestChange24h": None if coin.change is None else _change(coin.change),
        "totalVolume24hUsd": _rounded(volume.usd, 2),
        "totalVolume24hCoins": volume.coins,
        "volumeMissing": list(map(_missing, volume.missing)),
        "weightedFundingRatePct8h": _rounded(coin.funding_8h_pct, RATE_DIGITS),
        "weightedFundingWithMissingPct8h": _rounded(coin.funding_with_missing_8h_pct, RATE_DIGITS),
        "fundingMissing": list(map(_missing, coin.funding_missing)),
        "settledTo": _text(coin.settled_to),
        "fundingSpread": coin.spread,
        "priceRange": None if coin.prices is None else _prices(coin.prices),
        "liquidations24hAtLeastUsd": _rounded(coin.at_least_usd, 2),
        "liquidations24hLongUsd": _rounded(longs, 2),
        "liquidations24hShortUsd": _rounded(shorts, 2),
        "liquidationsIncomplete": coin.liquidations_incomplete,
    }


def _missing(each: Missing) -> dict[str, Any]:
    return {
        "venue": each.venue,
        "reason": each.reason,
        "lastUsd": _rounded(each.last_usd, 2),
        "lastCoins": each.last_coins,
        "last_as_of": _text(each.last_at),
    }


def _change(each: Change) -> dict[str, Any]:
    change, by_price = round(each.change_usd, 2), _rounded(each.price_effect_usd, 2)
    price, positions = each.quadrant or (None, None)
    return {
        "changes_from": _text(each.since),
        "venues": each.venues,
        "beforeUsd": round(each.before_usd, 2),
        "changeUsd": change,
        "changePct": _rounded(each.usd_pct, 4),
        "priceEffectUsd": by_price,
        "positionsEffectUsd": None if by_price is None else round(change - by_price, 2),
        "priceChangePct": _rounded(each.price_pct, 4),
        "coinsChangePct": _rounded(each.coins_pct, 4),
        "price": price,
        "positions": positions,
    }


def _prices(each: PriceRange) -> dict[str, Any]:
    return dict(zip(PricesOfVenues.model_fields, each, strict=True))


def _weighted(coin: CrossCoin) -> Iterator[tuple[CrossVenue, float | None]]:
    return zip(coin.venues, coin.weights, strict=True)


def _row(coin: CrossCoin, each: CrossVenue, weight: float | None) -> dict[str, Any]:
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
        "sharePct": _rounded(coin.share_pct(each), 2),
        "volume24hUsd": each.volume_usd,
        "volume24hCoins": each.volume_coins,
        "weightPct": _rounded(weight, 2),
    }


def _details(market: CrossMarket, each: CrossVenue) -> dict[str, Any]:
    known, facts = each.contract, market.facts[each.venue]
    totals = facts.fresh_totals(market.limits, market.now)
    longs, shorts = (None, None) if each.liquidated_usd is None else each.liquidated_usd
    at = each.as_of if known is None else known.open_interest_at or each.as_of
    return {
        **{name: None if known is None else getattr(known, field) for name, field in _OWN.items()},
        "basisPct": None if known is None else _rounded(known.basis_pct, 6),
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
    for name in ("openInterestMissing", "volumeMissing", "fundingMissing"):
        totals[name] = [
            {"venue": each["venue"], "lastUsd": each["lastUsd"]} for each in totals[name]
        ]
    totals["openInterestComplete"] = str(totals["openInterestComplete"]).lower()
    totals["openInterestChange24h"] = coin.change and _rounded(coin.change.usd_pct, 4)
    totals["fundingSpread"] = coin.spread and coin.spread.pct_8h
    totals["priceRange"] = coin.prices and [coin.prices.lowest, coin.prices.highest]
    for each, weight in _weighted(coin):
        yield [*totals.values(), *_row(coin, each, weight).values()]


class VenueRoles(NamedTuple):
    """How this instance uses its venues."""

    primary: str
    in_use: str
    unconfirmed: Unconfirmed | None
    """None if the terms are not known yet."""


def venues_document(
    facts: Mapping[str, VenueFacts],
    roles: VenueRoles,
    market: CrossMarket | None,
    limits: FreshnessLimits,
    now: int,
) -> Document:
    """The configured venues; `market` is None without a fresh reading."""
    entries = venue_entries(facts, roles, market, limits, now)
    head = ListHead(now, roles.in_use, facts[roles.in_use].venue.source)
    total = Total(None, None, ()) if market is None else market.open_interest
    also = {
        "totalOpenInterestUsd": _rounded(total.usd, 2),
        "openInterestMissing": list(map(_missing, total.missing)),
        "openInterestWithMissingUsd": _rounded(total.with_missing_usd, 2),
        "notRead": [each._asdict() for each in NOT_READ],
    }
    body = head.encode("venues", [entry.encode() for entry in entries], None, also)
    return Document(body, until=now + KEEP_MS, modified=now)


def venue_entries(
    facts: Mapping[str, VenueFacts],
    roles: VenueRoles,
    market: CrossMarket | None,
    limits: FreshnessLimits,
    now: int,
) -> list[VenueEntry]:
    """What each configured venue publishes, its share, and its health."""
    return [_venue(fact, roles, market, limits, now) for fact in facts.values()]


def _venue(
    facts: VenueFacts,
    roles: VenueRoles,
    market: CrossMarket | None,
    limits: FreshnessLimits,
    now: int,
) -> VenueEntry:
    usd = None if market is None else market.by_venue.get(facts.venue.name)
    total = None if market is None else market.open_interest.with_missing_usd
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
        openInterestUsd=_rounded(usd, 2),
        sharePct=round(100 * usd / total, 2) if usd is not None and total else None,
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
    "indexPrice": "index_price",
    "basisPct": "basis_pct",
    "fundingRatePct": "funding_rate_pct",
    "fundingIntervalHours": "funding_interval_hours",
    "nextFundingTime": "next_funding_time",
}
"""The members that are as the venue states them, and their fields."""

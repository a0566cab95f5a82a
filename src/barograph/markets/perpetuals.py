"""Every perpetual with all of its numbers, as JSON and CSV (pure)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec
from pydantic import Field

from barograph import NOTICE
from barograph.kit.csv_table import CSV, cell, table
from barograph.kit.documents import JSON, Document
from barograph.kit.lists import ListBody, ListHead
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.markets.documents import (
    FundingRatePct,
    LongAccountPct,
    NextFundingTime,
    OpenInterestUsd,
    Source,
    fresh_document,
)
from barograph.markets.frames import is_near
from barograph.markets.symbols import symbol_of
from barograph.markets.view import MarketView
from barograph.venues.facts import PriceKind
from barograph.venues.records import Frame, PastValues, Perpetual
from barograph.venues.registry import VENUES

PERPETUALS_PATH = "/api/v1/perpetuals"
AsOf = Annotated[str, Field(description="Time of the data.")]
GroupAsOf = Annotated[str | None, Field(description="Time of the number before it.")]
Usd = Annotated[float | None, Field(description="Value of the liquidated positions, in USD.")]


class Liquidations24h(WireModel):
    """Liquidations of one contract in 24 hours.

    The sums are null if coverage is too low, or if the venue does not publish every liquidation.
    """

    available: bool
    longUsd: Usd = None
    shortUsd: Usd = None
    watchedPct: Annotated[
        float | None,
        Field(description="Share of the 24 hours that we watched, in percent; null if unknown."),
    ] = None
    as_of: Annotated[str | None, Field(description="End of the 24 hours.")] = None


class PerpetualEntry(WireModel):
    """The numbers of one perpetual, with the time of each group; null for what is unknown."""

    venue: Annotated[str, Field(description="The exchange, such as `bybit`.")]
    symbol: Annotated[str, Field(description="Base asset, such as `BTC` or `1000PEPE`.")]
    contract: Annotated[str, Field(description="Full name, such as `BTCUSDT`.")]
    coin: Annotated[str, Field(description="The coin, such as `PEPE` for `1000PEPE`.")]
    multiplier: Annotated[int, Field(description="How many coins price and sizes are for.")]
    quote: Annotated[str, Field(description="Currency of the price: `USDT` or `USD`.")]
    lastPrice: Annotated[float, Field(description="Price of `priceKind`, in `quote`.")]
    priceKind: Annotated[
        PriceKind,
        Field(description="`last`: the price of the last trade; `mark`: the mark price."),
    ]
    price_as_of: AsOf
    fundingRatePct: FundingRatePct
    fundingIntervalHours: Annotated[float, Field(description="Hours between two settlements.")]
    fundingRatePct8h: Annotated[float, Field(description="The rate per 8 hours, in percent.")]
    nextFundingTime: NextFundingTime
    funding_as_of: AsOf
    openInterestUsd: OpenInterestUsd
    openInterestCoins: Annotated[
        float | None, Field(description="Single-sided; in units of 1,000 coins for 1000PEPE.")
    ]
    open_interest_as_of: GroupAsOf
    longAccountPct: LongAccountPct
    long_accounts_as_of: GroupAsOf
    markPrice: Annotated[float | None, Field(description="Mark price, in `quote`.")]
    indexPrice: Annotated[float | None, Field(description="Index or oracle price, in `quote`.")]
    basisPct: Annotated[
        float | None, Field(description="Mark minus index price, in percent of the index.")
    ]
    volume24hUsd: Annotated[
        float | None, Field(description="24-hour turnover in `quote`, as reported.")
    ]
    volume24hCoins: Annotated[
        float | None, Field(description="The same in units of `openInterestCoins`.")
    ]
    priceChange24hPct: Annotated[float | None, Field(description="In percent.")]
    openInterestChange24hPct: Annotated[
        float | None, Field(description="Change of the USD value, price moves included.")
    ]
    openInterestCoinsChange24hPct: Annotated[
        float | None, Field(description="Change in the number of coins.")
    ]
    changes_from: Annotated[
        str | None,
        Field(description="Changes compare with our reading at this time, 24 h ± 5 min before."),
    ]
    liquidations24h: Liquidations24h
    disputed: Annotated[
        list[str], Field(description="Measures that contradict the other venues, such as `price`.")
    ]


class _Head(WireModel):
    as_of: AsOf
    venue: str
    source: Source
    notice: Notice


class PerpetualBody(PerpetualEntry, _Head):
    """One perpetual."""


class PerpetualList(ListBody):
    """Perpetuals: BTC, ETH and SOL, then the others, the largest open interest first."""

    perpetuals: list[PerpetualEntry]
    next: Annotated[str | None, Field(description="Always null: there is only one page.")]


def perpetual_document(view: MarketView, perpetual: Perpetual) -> Document:
    """One perpetual as JSON."""
    as_of, source = _text(view.perpetuals.as_of), view.perpetuals.source
    facts = _entry(view, perpetual).__dict__
    body = PerpetualBody(as_of=as_of, source=source, notice=NOTICE, **facts)
    share = view.share(perpetual.contract)
    return fresh_document(view, body.encode(), [share], view.liquidations_until)


class DayChange(NamedTuple):
    """How the numbers of a perpetual changed in 24 hours, in percent; None for what is unknown."""

    price_pct: float | None = None
    open_interest_pct: float | None = None
    """Of the USD value, price moves included."""

    open_interest_coins_pct: float | None = None
    since: int | None = None
    """The time of the reading that the changes compare with."""


def day_change(view: MarketView, each: Perpetual) -> DayChange:
    """The changes of a perpetual in 24 hours; unknown without a reading near enough to then."""
    before = _before(view, view.day_ago, DAY, each)
    if before is None or view.day_ago is None:
        return DayChange()
    return DayChange(
        percent_change(each.last_price, before.last_price),
        percent_change(each.open_interest_usd, before.open_interest_usd),
        percent_change(each.open_interest_coins, before.open_interest_coins),
        view.day_ago.at,
    )


def week_change(view: MarketView, week_ago: Frame | None, each: Perpetual) -> float | None:
    """The change of a price in 7 days, in percent; unknown as that of 24 hours."""
    before = _before(view, week_ago, 7 * DAY, each)
    return None if before is None else percent_change(each.last_price, before.last_price)


def liquidated_day(view: MarketView, contract: str) -> tuple[float, float] | None:
    """Liquidated longs and shorts of a contract in 24 hours, in USD; None if unknown."""
    totals = view.liquidations
    if totals is None or totals.by_contract is None or contract in view.perpetuals.unwatched:
        return None
    return totals.by_contract.get(contract, (0.0, 0.0))


class _Listed(msgspec.Struct):
    perpetuals: list[msgspec.Raw]


def list_document(view: MarketView, contracts: Sequence[Perpetual], form: str) -> Document:
    """All perpetuals as JSON or CSV."""
    reading, entries = view.perpetuals, [_entry(view, perpetual) for perpetual in contracts]
    if form == "csv":
        body, kind = table(",".join(COLUMNS), map(_row, entries), reading.source), CSV
    else:
        head = ListHead(reading.as_of, reading.venue, reading.source)
        encoded = [entry.encode() for entry in entries]
        body, kind = head.encode("perpetuals", encoded, None), JSON
    shares = (view.share(perpetual.contract) for perpetual in contracts)
    return fresh_document(
        view, body, shares, view.liquidations_until, content_type=kind, compress=True
    )


def cut_document(view: MarketView, whole: Document, form: str, limit: int) -> Document:
    """The first entries of the list, cut out of it: rendering 500 of them again takes 30 ms."""
    if form == "csv":
        body, kind = b"".join(whole.body.splitlines(keepends=True)[: limit + 1]), CSV
    else:
        entries = msgspec.json.decode(whole.body, type=_Listed).perpetuals[:limit]
        reading = view.perpetuals
        head = ListHead(reading.as_of, reading.venue, reading.source)
        body, kind = head.encode("perpetuals", [bytes(entry) for entry in entries], None), JSON
    return fresh_document(view, body, [], whole.until, content_type=kind)


def _entry(view: MarketView, each: Perpetual) -> PerpetualEntry:
    as_of, share = _text(view.perpetuals.as_of), view.share(each.contract)
    change = day_change(view, each)
    has_interest = each.open_interest_usd is not None or each.open_interest_coins is not None
    counted = as_of if each.open_interest_at is None else _text(each.open_interest_at)
    return PerpetualEntry(
        venue=view.perpetuals.venue,
        symbol=symbol_of(view.by_name, each) or each.base,
        contract=each.contract,
        coin=each.asset,
        multiplier=each.multiplier,
        quote=each.quote,
        lastPrice=each.last_price,
        priceKind=each.price_kind,
        price_as_of=as_of,
        fundingRatePct=each.funding_rate_pct,
        fundingIntervalHours=each.funding_interval_hours,
        fundingRatePct8h=each.funding_8h_pct,
        nextFundingTime=each.next_funding_time,
        funding_as_of=as_of,
        openInterestUsd=each.open_interest_usd,
        openInterestCoins=each.open_interest_coins,
        open_interest_as_of=counted if has_interest else None,
        longAccountPct=None if share is None else share.long_account_pct,
        long_accounts_as_of=None if share is None else _text(share.sampled_at),
        markPrice=each.stated_mark,
        indexPrice=each.index_price,
        basisPct=each.basis_pct,
        volume24hUsd=each.volume_24h_usd,
        volume24hCoins=each.volume_24h_coins,
        priceChange24hPct=change.price_pct,
        openInterestChange24hPct=change.open_interest_pct,
        openInterestCoinsChange24hPct=change.open_interest_coins_pct,
        changes_from=None if change.since is None else _text(change.since),
        liquidations24h=_liquidations(view, each.contract),
        disputed=[*view.disputed],
    )


def _before(view: MarketView, frame: Frame | None, ms: int, each: Perpetual) -> PastValues | None:
    if frame is None or not is_near(frame.at, view.perpetuals.as_of - ms):
        return None
    return frame.contracts.get(each.contract)


def percent_change(now: float | None, before: float | None) -> float | None:
    """A change in percent; None if it is unknown."""
    if now is None or before is None or before <= 0:
        return None
    return round(100 * (now / before - 1), 4)


def _liquidations(view: MarketView, contract: str) -> Liquidations24h:
    totals = view.watched
    if totals is None or VENUES[view.perpetuals.venue].liquidations == "none":
        return Liquidations24h(available=False)
    is_published = contract not in view.perpetuals.unwatched
    sums = liquidated_day(view, contract)
    longs, shorts = sums or (None, None)
    return Liquidations24h(
        available=sums is not None,
        longUsd=longs,
        shortUsd=shorts,
        watchedPct=totals.watched_pct if is_published else 0.0,
        as_of=_text(totals.as_of),
    )


def _row(entry: PerpetualEntry) -> str:
    *values, liquidations, disputed = entry.__dict__.values()
    _, *counted = liquidations.__dict__.values()
    return ",".join(map(cell, [*values, *counted, " ".join(disputed)]))


COLUMNS = (
    *list(PerpetualEntry.model_fields)[:-2],
    *(f"liquidations24h_{name}" for name in list(Liquidations24h.model_fields)[1:]),
    "disputed",
)

_text = lru_cache(maxsize=512)(iso_timestamp)
"""Most perpetuals have the same times."""

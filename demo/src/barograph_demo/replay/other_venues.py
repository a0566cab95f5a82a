"""The past of the venues beside Bybit, as their readings would have recorded it.

Frames of the last day make 24-hour changes known at once. There are rows only where the replay
judges Bybit; the collector back-fills the hours between. The values are those that the simulated
venues' own history has.
"""

from functools import cache
from typing import NamedTuple

from barograph.kit.timestamps import HOUR
from barograph.markets.frames import NEAR, StoredFrame, frame_of, stored
from barograph.markets.listings import ListingChange
from barograph.markets.store import ReadingRow, Resolution
from barograph.venues.records import Perpetual
from barograph.venues.registry import VENUES as FACTS
from barograph_demo.world.randomness import MAJORS
from barograph_demo.world.venues import (
    COIN,
    GATE,
    HYPERLIQUID,
    TRADING,
    VENUES,
    VenueContract,
    VenueMarket,
)
from barograph_demo.world.world import World

_RATE_PLACES = {GATE: 6, HYPERLIQUID: 10}


class VenuePast(NamedTuple):
    """What a venue's readings recorded at one time."""

    venue: str
    readings: list[ReadingRow]
    frames: list[StoredFrame]
    listings: list[ListingChange]
    """Every contract, at the first time."""


def observe_others(
    world: World,
    at: int,
    *,
    is_framed: bool = False,
    is_first: bool = False,
    of_majors: bool = False,
) -> list[VenuePast]:
    """What the venues recorded at a time: a row of each contract at a full hour, and a frame.

    A late row would have the value of another time.
    """
    if not (is_framed or at % HOUR <= NEAR):
        return []
    markets = (_market(world, venue) for venue in VENUES)
    return [_observe(each, at, is_framed, is_first, of_majors) for each in markets]


def _observe(
    market: VenueMarket, at: int, is_framed: bool, is_first: bool, of_majors: bool
) -> VenuePast:
    listed, past = _listed(market), VenuePast(market.venue, [], [], [])
    if of_majors:
        listed = [each for each in listed if each.coin in MAJORS]
    perpetuals = [_perpetual(market, each, at) for each in listed]
    if is_framed:
        past.frames.append(stored(frame_of(at, perpetuals)))
    if at % HOUR <= NEAR:
        past.readings.extend(
            _row(market, contract, each, at)
            for contract, each in zip(listed, perpetuals, strict=True)
        )
    if is_first:
        past.listings.extend(
            ListingChange(each.name, at, each.coin, each.multiplier) for each in listed
        )
    return past


@cache
def _listed(market: VenueMarket) -> list[VenueContract]:
    """The contracts that the service reads, which are the same at all times."""
    quote = FACTS[market.venue].quote
    return [
        each
        for each in market.contracts(market.world.epoch)
        if (each.asset_class, each.status, each.quote) == (COIN, TRADING, quote)
    ]


def _perpetual(market: VenueMarket, contract: VenueContract, at: int) -> Perpetual:
    """The values as rounded as the venue sends them."""
    last, index, mark, _, coins, turnover = market.quote(contract, at)
    last = round(last, contract.price_decimals)
    is_mark = FACTS[market.venue].price_kind == "mark"
    if is_mark:
        last = mark = round(mark, contract.price_decimals)
    elif market.venue == GATE:
        mark = round(mark, contract.price_decimals + 1)
        coins = round(coins / contract.lot) * contract.lot
    else:
        coins = round(coins, contract.size_decimals)
    # The next report must not revise the rate, so it is read as the adapter reads it.
    places = _RATE_PLACES.get(market.venue, 8)
    rate = round(market.funding_rate(contract, at), places)
    return Perpetual(
        contract=contract.name,
        base=contract.base,
        last_price=last,
        funding_rate_pct=round(100 * rate, places - 2) + 0.0,
        funding_interval_hours=contract.funding_hours,
        next_funding_time=market.next_funding(contract, at),
        open_interest_usd=coins * mark,
        open_interest_coins=coins,
        mark_price=None if is_mark else mark,
        index_price=index,
        volume_24h_usd=turnover,
        volume_24h_coins=turnover / last,
    )


def _row(market: VenueMarket, contract: VenueContract, each: Perpetual, at: int) -> ReadingRow:
    has_shares = FACTS[market.venue].has_long_accounts
    share = 100 * market.long_share(contract, at) if has_shares else None
    return reading_row("hour", at // HOUR * HOUR, each, share)


def reading_row(
    resolution: Resolution, at: int, each: Perpetual, long_account_pct: float | None
) -> ReadingRow:
    """The row of a contract as a reading records it."""
    return ReadingRow(
        resolution,
        each.contract,
        at,
        each.last_price,
        each.funding_rate_pct,
        each.funding_interval_hours,
        each.open_interest_usd,
        long_account_pct,
        each.open_interest_coins,
        mark_price=each.mark_price,
        index_price=each.index_price,
        volume_24h_usd=each.volume_24h_usd,
        volume_24h_coins=each.volume_24h_coins,
    )


@cache
def _market(world: World, venue: str) -> VenueMarket:
    return VenueMarket(world, venue)
